//! One suite over every implementation of a store: the core over memory, the
//! host over files, the component over memory that is lent to it, and the
//! host's sandbox over files. In builds with the feature `sandbox`.
//!
//! | module | holds |
//! | --- | --- |
//! | `handle` | the host's two handles, behind one face |
//! | `folder` | such a handle as an implementation of the contract |
//! | `files` | files of stores, compared |
//! | `behaviour` | what every implementation does |
//! | `sequence` | random changes, made to all of them in step |
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::panic_in_result_fn, reason = "as above")]
#![expect(clippy::cast_possible_truncation, reason = "the stores of tests are small")]

use std::rc::Rc;

use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_host::{Sandbox, Store};

use crate::component::contract::Contract;
use crate::component::instance::{Component, World};
use crate::component::native::Core;
use crate::fuzz::image::Image;

pub mod behaviour;
pub mod files;
pub mod folder;
pub mod handle;
pub mod sequence;

use folder::Folder;

/// How much of what an implementation writes follows from what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Every byte.
    Whole,
    /// But for the id, which it draws.
    DrawsIds,
    /// It packs by another codec too, so that compressed records have other
    /// stored bytes.
    PacksOtherwise,
}

/// A store that a test drives.
pub trait Implementation: Contract {
    /// How much of it can be compared.
    fn likeness(&self) -> Likeness;
    /// Its files as they are.
    fn image(&self) -> Image;
}

impl Implementation for Core<MemoryDirectory> {
    fn likeness(&self) -> Likeness {
        Likeness::Whole
    }

    fn image(&self) -> Image {
        Image::of(self.directory())
    }
}

impl Implementation for Component<MemoryDirectory> {
    fn likeness(&self) -> Likeness {
        Likeness::Whole
    }

    fn image(&self) -> Image {
        Image::of(self.directory())
    }
}

impl Implementation for Folder<Sandbox> {
    fn likeness(&self) -> Likeness {
        Likeness::DrawsIds
    }

    fn image(&self) -> Image {
        files::of_folder(self.path())
    }
}

impl Implementation for Folder<Store> {
    fn likeness(&self) -> Likeness {
        Likeness::PacksOtherwise
    }

    fn image(&self) -> Image {
        files::of_folder(self.path())
    }
}

/// All there are, the core first, each over a copy of the files of an image,
/// or over nothing.
pub fn all(image: Option<&Image>) -> Vec<Box<dyn Implementation>> {
    let memory = || image.map_or_else(MemoryDirectory::new, Image::in_memory);
    let empty: Rc<dyn Fn() -> MemoryDirectory> = Rc::new(MemoryDirectory::new);
    vec![
        Box::new(Core::new(memory(), Rc::clone(&empty))),
        Box::new(Component::new(World::RecordStore, memory(), empty)),
        Box::new(Folder::<Store>::of(image)),
        Box::new(Folder::<Sandbox>::of(image)),
    ]
}
