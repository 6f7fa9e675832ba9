#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use wasmtime::component::Resource;

use super::*;
use crate::sandbox::bindings::zrecord::store::files::{HostDirectory, HostFile};
use crate::sandbox::limits::CALL_BYTES_MIN;

/// What a component sees of a directory.
fn lent(path: &Path, access: Access) -> (State, u32) {
    let mut state = State::new(&Limits::new().call_bytes(CALL_BYTES_MIN));
    let directory = state.lend(FsDirectory::new(path), access).unwrap();
    let number = directory.rep();
    (state, number)
}

fn directory(number: u32) -> Resource<LentDirectory> {
    Resource::new_borrow(number)
}

fn file(number: u32) -> Resource<LentFile> {
    Resource::new_borrow(number)
}

/// Every way of naming a file.
fn ask(state: &mut State, number: u32, name: &str) -> [Option<files::ErrorCode>; 6] {
    let name = || name.to_string();
    let answers = [
        HostDirectory::open(state, directory(number), name()).unwrap().map(drop),
        files_edit::Host::open(state, directory(number), name()).unwrap().map(drop),
        files_edit::Host::create(state, directory(number), name()).unwrap().map(drop),
        files_edit::Host::rename(state, directory(number), name(), "0.zr".into()).unwrap(),
        files_edit::Host::rename(state, directory(number), "0.zr".into(), name()).unwrap(),
        files_edit::Host::remove(state, directory(number), name()).unwrap(),
    ];
    answers.map(Result::err)
}

#[test]
fn no_other_name_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.zr"), "chunk").unwrap();
    fs::write(folder.path().join("lock.zr"), "").unwrap();
    let (mut state, number) = lent(folder.path(), Access::Write);
    for name in ["lock.zr", "../0.zr", "/etc/hostname", "", ".", "00.zr", "0.zr\0", "notes.txt"] {
        for answer in ask(&mut state, number, name) {
            assert!(matches!(answer, Some(files::ErrorCode::Invalid)), "{name:?}: {answer:?}");
        }
    }
    assert_eq!(fs::read(folder.path().join("0.zr")).unwrap(), b"chunk");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_directory_lent_for_reading_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.zr"), "chunk").unwrap();
    let (mut state, number) = lent(folder.path(), Access::Read);
    let [open, edits @ ..] = ask(&mut state, number, "0.zr");
    assert!(open.is_none(), "{open:?}");
    for answer in edits {
        assert!(matches!(answer, Some(files::ErrorCode::ReadOnly)), "{answer:?}");
    }
    let synced = files_edit::Host::sync_directory(&mut state, directory(number)).unwrap();
    assert!(matches!(synced, Err(files::ErrorCode::ReadOnly)));
    let open = HostDirectory::open(&mut state, directory(number), "0.zr".into()).unwrap().unwrap();
    let rep = open.rep();
    let written = files_edit::Host::write(&mut state, file(rep), b"other".into(), 0).unwrap();
    assert!(matches!(written, Err(files::ErrorCode::ReadOnly)));
    let cut = files_edit::Host::set_size(&mut state, file(rep), 0).unwrap();
    assert!(matches!(cut, Err(files::ErrorCode::ReadOnly)));
    assert_eq!(fs::read(folder.path().join("0.zr")).unwrap(), b"chunk");
}

#[test]
fn reads_are_cut_at_the_end_and_refused_above_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.zr"), "0123456789").unwrap();
    let (mut state, number) = lent(folder.path(), Access::Read);
    let open = HostDirectory::open(&mut state, directory(number), "0.zr".into()).unwrap().unwrap();
    let rep = open.rep();
    let read = |state: &mut State, length, offset| {
        HostFile::read(state, file(rep), length, offset)
            .unwrap()
            .map_err(|code| format!("{code:?}"))
    };
    assert_eq!(read(&mut state, 4, 2), Ok((b"2345".to_vec(), false)));
    assert_eq!(read(&mut state, 4, 8), Ok((b"89".to_vec(), true)));
    assert_eq!(read(&mut state, 4, u64::from(u32::MAX)), Ok((Vec::new(), true)));
    let refused = Err(format!("{:?}", files::ErrorCode::TooLarge));
    assert_eq!(read(&mut state, CALL_BYTES_MIN + 1, 0), refused);
    assert_eq!(read(&mut state, u64::MAX, 0), refused);
    let mut read_many = |spans: &[(u64, u64)]| {
        let spans = spans.iter().map(|&(offset, length)| files::Span { offset, length });
        let read = HostFile::read_many(&mut state, file(rep), spans.collect()).unwrap();
        read.map_err(|code| format!("{code:?}"))
    };
    assert_eq!(read_many(&[(8, 2), (0, 3), (1, 3)]), Ok(b"89012123".to_vec()));
    assert_eq!(read_many(&[(0, 2), (8, 3), (0, 2)]), Ok(b"0189".to_vec()), "none behind a cut one");
    assert_eq!(
        read_many(&[(0, u64::MAX), (0, 2)]),
        refused.clone().map(|_: (Vec<u8>, bool)| vec![])
    );
}

/// Short spans are copied from a mapping, which must not show.
#[test]
fn a_file_that_grows_or_is_cut_is_read_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.zr");
    let bytes = |size: usize| (0..size).map(|at| (at % 251).to_le_bytes()[0]).collect::<Vec<u8>>();
    let (mut state, number) = lent(folder.path(), Access::Read);
    fs::write(&path, bytes(5_000)).unwrap();
    let open = HostDirectory::open(&mut state, directory(number), "0.zr".into()).unwrap().unwrap();
    let rep = open.rep();
    let mut read = || {
        let spans = [(4_990, 20), (0, 3), (2_999_995, 10)];
        spans.map(|(offset, length)| {
            let spans = [(offset, 0), (offset, length)];
            let spans = spans.map(|(offset, length)| files::Span { offset, length });
            HostFile::read_many(&mut state, file(rep), spans.into()).unwrap().unwrap()
        })
    };
    for size in [5_000, 3_000_000, 4_995, 0, 3_000_001] {
        let file = fs::File::options().write(true).open(&path).unwrap();
        let before = usize::try_from(file.metadata().unwrap().len()).unwrap();
        file.set_len(size.try_into().unwrap()).unwrap();
        if size > before {
            fs::write(&path, bytes(size)).unwrap();
        }
        let all = bytes(size);
        let part = |offset: usize, length: usize| {
            all[offset.min(size)..(offset + length).min(size)].to_vec()
        };
        assert_eq!(read(), [part(4_990, 20), part(0, 3), part(2_999_995, 10)], "{size}");
    }
}

#[test]
fn a_component_has_only_so_many_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.zr"), "").unwrap();
    let (mut state, number) = lent(folder.path(), Access::Read);
    let mut open = || HostDirectory::open(&mut state, directory(number), "0.zr".into()).unwrap();
    let opened = (0..RESOURCES_MAX).take_while(|_| open().is_ok()).count();
    assert_eq!(opened, RESOURCES_MAX - 1, "the directory is one of them");
    assert!(matches!(open(), Err(files::ErrorCode::InsufficientSpace)));
}
