//! The component beside the core: both are asked the same, and must answer the
//! same.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::rc::Rc;

use zrecord_core::storage::File;
use zrecord_core::storage::memory::MemoryDirectory;

use super::contract::{Contract, Functions};
use super::instance::{Component, World};
use super::native::Core;
use super::scripted::Scripted;
use crate::fuzz::image::Image;

/// So many bytes of a file are compared: classic ones are sparse, and the
/// stores of tests have no more.
const COMPARED_MAX: u64 = 1 << 20;

/// Both, each over files of its own.
pub struct Pair {
    /// Answers natively.
    pub core: Core<Scripted>,
    /// Answers inside wasmtime.
    pub component: Component<Scripted>,
    /// Functions whose answers were compared.
    compared: BTreeSet<&'static str>,
}

impl Pair {
    /// Over copies of a store's files, which are known to neither.
    pub fn over(world: World, files: &MemoryDirectory) -> Self {
        let empty: Rc<dyn Fn() -> Scripted> = Rc::new(Scripted::default);
        let copy = || Scripted::over(files.snapshot());
        Self {
            core: Core::new(copy(), Rc::clone(&empty)),
            component: Component::new(world, copy(), empty),
            compared: BTreeSet::new(),
        }
    }

    /// Over the files of an image.
    pub fn of(world: World, image: &Image) -> Self {
        Self::over(world, &image.in_memory())
    }

    /// Over nothing.
    pub fn empty(world: World) -> Self {
        Self::over(world, &MemoryDirectory::new())
    }

    /// Asks both, and returns what both answer.
    pub fn same<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        ask: impl Fn(&mut dyn Contract) -> T,
    ) -> T {
        let expected = ask(&mut self.core);
        self.component.take_called();
        let found = ask(&mut self.component);
        self.compared.append(&mut self.component.take_called());
        assert!(found == expected, "{what}: {found:?} of the component, {expected:?} natively");
        expected
    }

    /// Asks the component what the answer of is known.
    pub fn expect<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        expected: &T,
        ask: impl FnOnce(&mut dyn Functions) -> T,
    ) {
        self.component.take_called();
        let found = ask(&mut self.component);
        self.compared.append(&mut self.component.take_called());
        assert!(found == *expected, "{what}: {found:?} of the component, {expected:?} natively");
    }

    /// Does something to the directories of both.
    pub fn script(&self, change: impl Fn(&Scripted)) {
        change(self.core.directory());
        change(self.component.directory());
    }

    /// Compares the files that both have by now.
    pub fn same_files(&self, what: &str) {
        let (core, component) = (self.core.directory(), self.component.directory());
        let (core, component) = (core.memory(), component.memory());
        assert_eq!(core.names(), component.names(), "{what}: other files");
        for name in core.names() {
            let files = [core, component].map(|directory| directory.file(name).unwrap());
            let [expected, found] = files.each_ref().map(|file| file.size().unwrap());
            assert_eq!(found, expected, "{what}: the size of {name}");
            let [expected, found] = files.map(|file| {
                let mut bytes = vec![0; expected.min(COMPARED_MAX) as usize];
                file.read(&mut bytes, 0).unwrap();
                bytes
            });
            assert!(found == expected, "{what}: other bytes in {name}");
        }
    }

    /// Functions whose answers were compared, by the names that the bindings
    /// have for them; forgets them.
    pub fn take_compared(&mut self) -> BTreeSet<&'static str> {
        std::mem::take(&mut self.compared)
    }
}
