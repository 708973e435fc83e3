//! The declarations of cohort.h, cohort_engine.h and cohort_tools.h, as they are: `abi.rs` is written from the headers
//! by tools/bindings.sh. Programs use the crate `cohort`, which is safe; what it leaves out is here.
//!
//! Enumerations are `i32`: a value that this version does not know is no undefined behaviour.

#![allow(non_camel_case_types)]

#[rustfmt::skip]
mod abi;
pub use abi::*;

/// Why the library that was loaded does not fit these declarations; nothing if it does. Structs may change with the minor
/// version until 1.0; options structs tell their size.
pub fn mismatch() -> Option<String> {
    // SAFETY: returns a static string.
    let version = unsafe { std::ffi::CStr::from_ptr(cohort_version()) }.to_string_lossy();
    let want = format!("{}.{}.", COHORT_VERSION_MAJOR, COHORT_VERSION_MINOR);
    if !version.starts_with(&want) {
        return Some(format!("libcohort is version {}; these bindings are for {}x", version, want));
    }
    macro_rules! size {
        ($($name:ident, $init:ident);*) => {$(
            // Room for a struct that is larger than ours: its size is what is asked for.
            let mut room = [0u64; (std::mem::size_of::<$name>() + 4096) / 8];
            // SAFETY: the room is larger than either struct, and aligned; the first field is its size.
            let size = unsafe {
                $init(room.as_mut_ptr() as *mut $name);
                *(room.as_ptr() as *const usize)
            };
            if size != std::mem::size_of::<$name>() {
                return Some(format!("struct {} has {} bytes in libcohort and {} in these bindings",
                    stringify!($name), size, std::mem::size_of::<$name>()));
            }
        )*};
    }
    size!(cohort_model_params, cohort_model_params_init; cohort_context_params, cohort_context_params_init;
        cohort_room_params, cohort_room_params_init;
        cohort_sampler_params, cohort_sampler_params_init; cohort_forest_params, cohort_forest_params_init;
        cohort_request_params, cohort_request_params_init; cohort_engine_params, cohort_engine_params_init;
        cohort_sim_params, cohort_sim_params_init; cohort_template_params, cohort_template_params_init;
        cohort_quantize_params, cohort_quantize_params_init; cohort_synth_params, cohort_synth_params_init);
    None
}
