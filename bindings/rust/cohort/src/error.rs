//! Errors: what a call of the library says when it fails.

use cohort_sys as sys;
use std::ffi::CStr;
use std::fmt;
use std::sync::Once;

/// Why a call failed. See `enum cohort_status` in cohort.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The KV cache has no room: try again with less, or after freeing.
    NoRoom,
    /// A flag of the caller's ended the call.
    Aborted,
    Arg,
    /// A batch broke a rule; the error says which, and where.
    Batch,
    Memory,
    Io,
    /// Malformed bytes; `offset` says where.
    Format,
    Unsupported,
    Limit,
    Numeric,
    /// A mistake of the library's.
    Bug,
    /// The library that was loaded is not the one these bindings are for.
    Library,
    Other(i32),
}

/// The fields of `struct cohort_err`; `row`, `seq` and `offset` are -1 where they mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: Status,
    pub text: String,
    pub rule: Option<String>,
    pub row: i64,
    pub seq: i64,
    pub expected: i64,
    pub got: i64,
    pub offset: i64,
}

pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl std::error::Error for Error {}

impl Error {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Error {
        Error { status, text: text.into(), rule: None, row: -1, seq: -1, expected: 0, got: 0, offset: -1 }
    }

    pub(crate) fn of(e: &sys::cohort_err) -> Error {
        let status = match e.status {
            sys::COHORT_NO_ROOM => Status::NoRoom,
            sys::COHORT_ABORTED => Status::Aborted,
            sys::COHORT_E_ARG => Status::Arg,
            sys::COHORT_E_BATCH => Status::Batch,
            sys::COHORT_E_MEMORY => Status::Memory,
            sys::COHORT_E_IO => Status::Io,
            sys::COHORT_E_FORMAT => Status::Format,
            sys::COHORT_E_UNSUPPORTED => Status::Unsupported,
            sys::COHORT_E_LIMIT => Status::Limit,
            sys::COHORT_E_NUMERIC => Status::Numeric,
            sys::COHORT_E_BUG => Status::Bug,
            other => Status::Other(other),
        };
        // SAFETY: text ends with a NUL; rule is a static string or NULL.
        let text = unsafe { CStr::from_ptr(e.text.as_ptr()) }.to_string_lossy().into_owned();
        let rule = (!e.rule.is_null()).then(|| unsafe { CStr::from_ptr(e.rule) }.to_string_lossy().into_owned());
        Error { status, text, rule, row: e.row, seq: e.seq, expected: e.expected, got: e.got, offset: e.offset }
    }
}

fn blank() -> sys::cohort_err {
    // SAFETY: numbers, characters and a pointer that may be NULL.
    unsafe { std::mem::zeroed() }
}

/// Calls a function that takes the error as its last parameter.
pub(crate) fn call(f: impl FnOnce(*mut sys::cohort_err) -> i32) -> Result<()> {
    let mut e = blank();
    match f(&mut e) {
        sys::COHORT_OK => Ok(()),
        _ => Err(Error::of(&e)),
    }
}

/// The same for a function that returns a pointer, or NULL.
pub(crate) fn call_ptr<T>(f: impl FnOnce(*mut sys::cohort_err) -> *const T) -> Result<*const T> {
    let mut e = blank();
    let p = f(&mut e);
    if p.is_null() {
        Err(Error::of(&e))
    } else {
        Ok(p)
    }
}

/// Whether the library fits; looked at once.
pub(crate) fn fits() -> Result<()> {
    static ONCE: Once = Once::new();
    static mut WHY: Option<String> = None;
    // SAFETY: written once, before anybody reads it.
    unsafe {
        ONCE.call_once(|| WHY = sys::mismatch());
        match &*std::ptr::addr_of!(WHY) {
            None => Ok(()),
            Some(why) => Err(Error::new(Status::Library, why.clone())),
        }
    }
}

/// Options as their `_init` leaves them. All zero where the library does not fit, as it might write more than there is
/// room for: no model can be loaded then, so that nobody uses them.
///
/// SAFETY: T is a struct of options, which may be all zero, and `init` its own.
pub(crate) unsafe fn defaults<T>(init: unsafe extern "C" fn(*mut T)) -> T {
    unsafe {
        let mut p = std::mem::zeroed();
        if fits().is_ok() {
            init(&mut p);
        }
        p
    }
}

/// A length as the library has them.
pub(crate) fn count(n: usize) -> Result<i32> {
    i32::try_from(n).map_err(|_| Error::new(Status::Limit, format!("{} are too many", n)))
}
