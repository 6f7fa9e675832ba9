//! What it takes to open a store, each time in a new process: the runtime is
//! set up and the component loaded once in each.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use zrecord_host::Store;
use zrecord_host::sandbox::{Limits, Sandbox};

use crate::times::median;

/// A cached component and a store together.
pub const TARGET_MS: f64 = 20.0;

/// The first argument of a process that opens a store and says how long it
/// took; `native` or `component`, and the path, follow.
const CHILD: &str = "--open";

/// Does the work of such a process, if this is one.
pub fn child() -> Option<ExitCode> {
    let mut arguments = env::args().skip(1).skip_while(|argument| argument != CHILD).skip(1);
    let (who, path) = (arguments.next()?, arguments.next()?);
    let open = |path: &str| match who.as_str() {
        "native" => drop(Store::open(path).unwrap()),
        _ => drop(Sandbox::open(path, Limits::new()).unwrap()),
    };
    // The first in a process sets up what later ones use.
    for _ in 0..2 {
        let started = Instant::now();
        open(&path);
        println!("{}", started.elapsed().as_secs_f64() * 1e3);
    }
    Some(ExitCode::SUCCESS)
}

/// Prints the times; says whether the target is met.
pub fn measure(path: &Path, rounds: usize) -> bool {
    // A cache of its own, which is empty.
    let cache = tempfile::tempdir().unwrap();
    let open = |who: &str| {
        let mut child = Command::new(env::current_exe().unwrap());
        let output =
            child.args([CHILD, who]).arg(path).env("XDG_CACHE_HOME", cache.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let mut times = text.lines().map(|line| line.parse::<f64>().unwrap());
        [times.next().unwrap(), times.next().unwrap()]
    };
    let [compiled, _] = open("component");
    let (mut native, mut component, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        native.push(open("native")[0]);
        let [first, second] = open("component");
        component.push(first);
        again.push(second);
    }
    let worst = component.iter().copied().fold(0.0, f64::max);
    let cached = median(&component);
    println!("opening a store, milliseconds");
    println!("{:<36} {:>8.3}", "native, first of a process", median(&native));
    println!("{:<36} {compiled:>8.3}", "component, compiled");
    println!("{:<36} {cached:>8.3}  (at most {worst:.3})", "component, cached, first of a process");
    println!("{:<36} {:>8.3}", "component, later in a process", median(&again));
    cached < TARGET_MS
}
