//! A deterministic crash simulator: the writer that ships, over a disk that
//! forgets.
//!
//! A [workload] is drawn from a seed and run once over a
//! [recording directory](record), which logs every write, change of size,
//! creation, rename, removal, file sync and directory sync. Then, for every
//! position of that log, the [disk] builds what may be found after a
//! crash there, and [`check`] opens it, compares it with what was
//! [promised](model), and goes on writing, to be crashed again.
//!
//! # What may be found
//!
//! A disk is inodes and a directory of names that point to them. Each inode
//! has 512-byte sectors and a size.
//!
//! **After a kill** the system lives on: every operation so far has happened.
//! The write under way may be cut: at any byte in the extended format; in the
//! classic one, whose header has no checksum, between two aligned words of
//! four bytes, since a copy within a page stores aligned words whole.
//!
//! **After a loss of power**, independently of one another:
//!
//! * each *sector* holds one of the versions that it has had since the last
//!   sync of its file (a sector is written whole, so a version holds every
//!   change to it up to some moment); cutting a file is a change of the
//!   sectors that it cuts, and bytes never written are zero;
//! * each *size* is one of those that the file has had since its last sync;
//!   bytes past it are lost, and where it grew without its data there are
//!   zeros;
//! * each *name* that was created, renamed or removed since the last sync of
//!   the directory is as it was or as it became. Changes of the same name
//!   keep their order: one that was kept implies those before it. A rename is
//!   one change of two names, as every journaling file system makes it.
//!   Changes of different names are independent, which is harsher than any
//!   journal;
//! * a sync of a file makes its bytes and its size durable, not its name; a
//!   sync of the directory makes names durable, not what they point to.
//!
//! How much is lost is drawn as well, for each file and for the names: all,
//! nothing, or each piece by chance, so that "the table without the chunks"
//! and "the names without the files" come up often.
//!
//! # What is checked
//!
//! See [`check`]. What a build without one of its syncs does is shown by
//! [`record::Sabotage`]: the simulator must catch each of them.

pub mod campaign;
pub mod check;
pub mod disk;
pub mod model;
pub mod record;
pub mod shrink;
pub mod workload;
