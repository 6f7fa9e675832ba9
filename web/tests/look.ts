import { launch, newPage, drop, showTab } from './browser/browser.ts';
import { TestServer } from './browser/server.ts';
const [,, out, ...stores] = process.argv;
const server = new TestServer('dist'); const url = await server.listen();
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: (process.env.SCHEME ?? 'light') as 'light' });
const { page, errors } = await newPage(context, url);
await page.screenshot({ path: `${out}/start.png` });
for (const store of stores) {
  const name = store.split('/').at(-1);
  await drop(page, [store]);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: `${out}/${name}.png` });
  if (process.env.TABS) for (const tab of process.env.TABS.split(',')) {
    await showTab(page, tab); await page.waitForTimeout(1200);
    if (tab === 'Verify') { await page.getByRole('button', { name: 'Verify' }).click(); await page.waitForTimeout(1500); }
    await page.screenshot({ path: `${out}/${name}-${tab.replace(' ', '')}.png` });
  }
}
console.log(errors);
await browser.close(); server.close();
