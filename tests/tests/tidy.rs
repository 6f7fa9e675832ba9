//! The tree itself, walked and measured, so that reviewers need not.
//!
//! Each test names one rule and lists every place that breaks it.

#![expect(clippy::unwrap_used, reason = "a panic fails the test that called the helper")]

use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this holds more than one thing.
const FILE_LINES_MAX: usize = 600;
/// A function longer than this does not fit a screen.
const FUNCTION_LINES_MAX: usize = 80;

/// The only files that may hold unsafe code, each with its invariants.
const UNSAFE_FILES: [&str; 9] = [
    "host/src/crew.rs",
    "host/src/guard/handler.rs",
    "host/src/lock/windows.rs",
    "host/src/mapping.rs",
    "host/src/process.rs",
    "host/src/sampler_simd.rs",
    "host/src/sandbox/compiled.rs",
    "py-host/src/array.rs",
    "py-host/src/attach.rs",
];

/// Folders that hold nothing written by hand, or bytes that must not change.
const SKIPPED_FOLDERS: [&str; 7] =
    ["target", "dist", "node_modules", "golden", "__pycache__", "corpus", "proptest-regressions"];
/// Hidden folders are skipped, but for these.
const HIDDEN_FOLDERS: [&str; 2] = [".cargo", ".ci"];

/// A text file of the tree.
struct Source {
    /// Relative to the root, with forward slashes.
    name: String,
    text: String,
}

impl Source {
    fn is(&self, extensions: &[&str]) -> bool {
        extensions.iter().any(|extension| self.name.ends_with(extension))
    }

    /// The numbered lines, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(position, line)| (position + 1, line))
    }

    /// The numbered lines for which `is_bad` holds, ready to be shown.
    fn find(&self, is_bad: impl Fn(&str) -> bool) -> Vec<String> {
        self.lines()
            .filter(|(_, line)| is_bad(line))
            .map(|(number, line)| format!("{}:{number}: {}", self.name, line.trim()))
            .collect()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every file that people write, sorted by name.
fn sources() -> Vec<Source> {
    let root = root();
    let mut sources = Vec::new();
    walk(&root, &root, &mut sources);
    assert!(sources.len() > 20, "the tree was not found at {}", root.display());
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    sources
}

fn walk(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file_name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let hidden = file_name.starts_with('.') && !HIDDEN_FOLDERS.contains(&&*file_name);
            if !hidden && !SKIPPED_FOLDERS.contains(&&*file_name) {
                walk(root, &path, sources);
            }
        } else if is_text(&path) {
            // A file may vanish between the listing and the reading.
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            sources.push(Source { name, text });
        }
    }
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("rs" | "py" | "pyi" | "toml" | "md" | "wit" | "txt" | "json" | "sh"))
        || path.ends_with(".ci/run")
}

fn assert_none(rule: &str, broken: Vec<String>) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn files_are_short() {
    let long = sources()
        .iter()
        .filter(|source| source.is(&[".rs", ".py", ".pyi"]))
        .map(|source| (source.text.lines().count(), &source.name))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, name)| format!("{name}: {lines} lines"))
        .collect();
    assert_none("files hold at most 600 lines", long);
}

#[test]
fn functions_fit_a_screen() {
    let mut long = Vec::new();
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        let length_of = match () {
            () if source.is(&[".rs"]) => rust_function_lines,
            () if source.is(&[".py"]) => python_function_lines,
            () => continue,
        };
        for start in 0..lines.len() {
            let length = length_of(&lines[start..]).unwrap_or(0);
            if length > FUNCTION_LINES_MAX {
                let head = lines[start].trim();
                long.push(format!("{}:{}: {length} lines: {head}", source.name, start + 1));
            }
        }
    }
    assert_none("functions hold at most 80 lines", long);
}

/// The length of the Rust function that begins at the first line, if one does.
fn rust_function_lines(lines: &[&str]) -> Option<usize> {
    const BEFORE: [&str; 7] =
        ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern"];
    let first = lines.first()?;
    let mut words = first.split_whitespace().skip_while(|word| BEFORE.contains(word));
    if words.next() != Some("fn") {
        return None;
    }
    // The signature ends where a body opens, or with a semicolon.
    let opened = lines.iter().position(|line| line.trim_end().ends_with(['{', '}', ';']))?;
    if !lines[opened].trim_end().ends_with('{') {
        return Some(opened + 1);
    }
    // Formatted code closes a body in the column where the function began.
    let close = format!("{}}}", " ".repeat(indentation(first)));
    lines.iter().position(|line| line.trim_end() == close).map(|position| position + 1)
}

/// The length of the Python function that begins at the first line, if one
/// does, without its docstring: in Rust that stands outside as well.
fn python_function_lines(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let head = first.trim_start();
    if !head.starts_with("def ") && !head.starts_with("async def ") {
        return None;
    }
    let is_inside = |line: &&&str| {
        let closes_signature = line.trim_start().starts_with(')');
        line.trim().is_empty() || indentation(line) > indentation(first) || closes_signature
    };
    let body = lines[1..].iter().take_while(is_inside).collect::<Vec<_>>();
    let blank = body.iter().rev().take_while(|line| line.trim().is_empty()).count();
    let quotes = "\"\"\"";
    let docstring = body.iter().skip_while(|line| !line.trim_start().starts_with(quotes));
    let docstring = match docstring.clone().next() {
        Some(line) if line.matches(quotes).count() == 2 => 1,
        Some(_) => 2 + docstring.skip(1).take_while(|line| !line.contains(quotes)).count(),
        None => 0,
    };
    Some(1 + body.len() - blank - docstring)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[test]
fn nothing_is_left_for_later() {
    // Spelled apart, or this file would break its own rule.
    let words = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("X", "XX")];
    let calls = [concat!("db", "g!("), concat!("to", "do!("), concat!("breakpoint", "()")];
    let is_left = |line: &str| {
        let names_one = |word: &&str| words.contains(word);
        line.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| names_one(&word))
            || calls.iter().any(|call| line.contains(call))
    };
    let left = sources().iter().flat_map(|source| source.find(is_left)).collect();
    assert_none("unfinished work is finished or written down elsewhere", left);
}

#[test]
fn white_space_is_plain() {
    let mut odd = Vec::new();
    for source in sources() {
        odd.extend(source.find(|line| line.contains('\t') || line.ends_with([' ', '\r'])));
        if !source.text.is_empty() && !source.text.ends_with('\n') {
            odd.push(format!("{}: no newline at the end", source.name));
        }
    }
    assert_none("no tab, no trailing space, a newline at the end", odd);
}

#[test]
fn unsafe_code_is_walled_in() {
    let rust: Vec<_> = sources().into_iter().filter(|source| source.is(&[".rs"])).collect();
    let unsafe_lines = |source: &Source| {
        source.find(|line| {
            let code = line.split("//").next().unwrap_or_default();
            let forms = ["{", "fn", "impl", "extern", "trait"];
            forms.iter().any(|form| code.contains(&format!("unsafe {form}")))
        })
    };
    let outside = rust
        .iter()
        .filter(|source| !UNSAFE_FILES.contains(&&*source.name) && source.name != THIS_FILE)
        .flat_map(unsafe_lines)
        .collect();
    assert_none("unsafe code is in the named files only", outside);
    let idle = UNSAFE_FILES
        .iter()
        .filter(|name| !rust.iter().any(|s| s.name == **name && !unsafe_lines(s).is_empty()))
        .map(|name| (*name).to_owned())
        .collect();
    assert_none("a file that is named for unsafe code holds some", idle);
}

const THIS_FILE: &str = "tests/tests/tidy.rs";

#[test]
fn the_core_knows_no_system() {
    let sources = sources();
    let core = || sources.iter().filter(|source| source.name.starts_with("guest/core/src/"));
    let library = core().find(|source| source.name == "guest/core/src/lib.rs").unwrap();
    assert!(library.text.contains("forbid(unsafe_code)"), "the core forbids unsafe code");
    let banned = ["std::fs", "std::thread", "std::time", "std::net", "std::env", "std::process"];
    let is_test = |source: &Source| {
        let stem = Path::new(&source.name).file_stem().unwrap().to_string_lossy();
        let declaration = format!("#[cfg(test)]\nmod {stem};");
        core().any(|other| other.text.contains(&declaration))
    };
    let mut uses = Vec::new();
    for source in core().filter(|source| !is_test(source)) {
        let shipped = source.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let shipped = Source { name: source.name.clone(), text: shipped.to_owned() };
        uses.extend(shipped.find(|line| banned.iter().any(|path| line.contains(path))));
    }
    assert_none("the core has no file, thread, clock, network or environment", uses);
}

#[test]
fn every_module_is_declared() {
    let sources = sources();
    let rust = || sources.iter().filter(|source| source.is(&[".rs"]));
    let mut dead = Vec::new();
    for source in rust() {
        let Some((package, below)) = source.name.split_once("/src/") else { continue };
        let path = Path::new(below);
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let module = if stem == "mod" {
            path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()
        } else {
            stem
        };
        let by_name = format!("mod {module};");
        let by_path = format!("/{module}.rs\"");
        let declared = rust()
            .filter(|other| other.name.starts_with(&format!("{package}/src/")))
            .any(|other| other.text.contains(&by_name) || other.text.contains(&by_path));
        if !declared && !matches!(&*module, "lib" | "main") {
            dead.push(source.name.clone());
        }
    }
    assert_none("every file is part of a crate", dead);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = root();
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.is(&[".md"])) {
        let folder = root.join(&source.name).parent().unwrap().to_path_buf();
        for link in source.text.split("](").skip(1) {
            let target = link.split([')', '#', ' ']).next().unwrap_or_default();
            let is_local = !target.is_empty() && !target.contains(':');
            if is_local && !folder.join(target).exists() {
                broken.push(format!("{}: {target}", source.name));
            }
        }
    }
    assert_none("links between documents lead to files", broken);
}

#[test]
fn the_measures_measure() {
    let rust = ["    fn a(", "    ) -> u8 {", "        1", "    }", "}"];
    assert_eq!(rust_function_lines(&rust), Some(4));
    assert_eq!(rust_function_lines(&["pub fn a() {}", "x"]), Some(1));
    assert_eq!(rust_function_lines(&["fn a();", "}"]), Some(1));
    assert_eq!(rust_function_lines(&["let fn_a = 1;"]), None);
    let python = ["def a(", "    b,", "):", "    return b", "", "", "c = 1"];
    assert_eq!(python_function_lines(&python), Some(4));
    let documented = ["def a():", "    \"\"\"Does.", "", "    More.", "    \"\"\"", "    b()"];
    assert_eq!(python_function_lines(&documented), Some(2));
    assert_eq!(python_function_lines(&["def a():", "    \"\"\"Does.\"\"\"", "    b()"]), Some(2));
    assert_eq!(python_function_lines(&["c = 1"]), None);
}
