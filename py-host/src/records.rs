//! What records are read through: a store of the host, or one inside of a
//! sandbox.

use std::sync::Arc;

use zrecord_core::codec::Codec;
use zrecord_core::format::Format;
use zrecord_core::schema::Schema;
use zrecord_core::usage::Stats;
use zrecord_core::verify::Fault;
use zrecord_host::{Progress, Result, Store};

/// An open store, as far as it is read. What the methods do, the host says.
pub(crate) trait Records: Send + Sync {
    fn len(&self) -> Result<u64>;
    fn codec(&self) -> Result<Codec>;
    fn format(&self) -> Format;
    fn id(&self) -> Option<[u8; 16]>;
    fn generation(&self) -> Result<u64>;
    fn schema(&self) -> Result<Option<Arc<Schema>>>;
    fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>>;
    fn gather(&self, indices: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()>;
    fn gather_packed(&self, indices: &[u64], dst: &mut [u8], record_len: u64) -> Result<()>;
    fn has_dictionary(&self) -> Result<bool>;
    fn stats(&self) -> Result<Stats>;
    fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Fault>>;
    fn close(&self) -> Result<()>;
    fn after_fork(&self);
    fn open_again(&self) -> Result<Self>
    where
        Self: Sized;
}

/// The methods that a type has under the same names itself.
macro_rules! its_own {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $answer:ty)?;)+) => {
        $(fn $name(&self $(, $argument: $type)*) $(-> $answer)? {
            Self::$name(self $(, $argument)*)
        })+
    };
}

impl Records for Store {
    its_own! {
        fn len(&self) -> Result<u64>;
        fn format(&self) -> Format;
        fn id(&self) -> Option<[u8; 16]>;
        fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>>;
        fn gather(&self, indices: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()>;
        fn gather_packed(&self, indices: &[u64], dst: &mut [u8], record_len: u64) -> Result<()>;
        fn stats(&self) -> Result<Stats>;
        fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Fault>>;
        fn close(&self) -> Result<()>;
        fn after_fork(&self);
        fn open_again(&self) -> Result<Self>;
    }

    fn codec(&self) -> Result<Codec> {
        Ok(Self::codec(self))
    }

    fn generation(&self) -> Result<u64> {
        Ok(Self::generation(self))
    }

    fn schema(&self) -> Result<Option<Arc<Schema>>> {
        self.read_schema()
    }

    fn has_dictionary(&self) -> Result<bool> {
        Ok(Self::has_dictionary(self))
    }
}

#[cfg(feature = "sandbox")]
impl Records for zrecord_host::Sandbox {
    its_own! {
        fn len(&self) -> Result<u64>;
        fn format(&self) -> Format;
        fn id(&self) -> Option<[u8; 16]>;
        fn generation(&self) -> Result<u64>;
        fn schema(&self) -> Result<Option<Arc<Schema>>>;
        fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>>;
        fn gather(&self, indices: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()>;
        fn gather_packed(&self, indices: &[u64], dst: &mut [u8], record_len: u64) -> Result<()>;
        fn has_dictionary(&self) -> Result<bool>;
        fn stats(&self) -> Result<Stats>;
        fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Fault>>;
        fn close(&self) -> Result<()>;
        fn after_fork(&self);
    }

    /// As a store of the host has it, also when it is untyped.
    fn codec(&self) -> Result<Codec> {
        Ok(Self::schema(self)?.map_or(Codec::Zstd, |schema| schema.codec()))
    }

    fn open_again(&self) -> Result<Self> {
        crate::attach::away_from_forks(|| Self::open_again(self))
    }
}
