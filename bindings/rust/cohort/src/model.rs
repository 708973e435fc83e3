//! Models, tokens and grammars.

use crate::error::{call, count, defaults, fits, Error, Result, Status};
use crate::Token;
use cohort_sys as sys;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::raw::c_char;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

/// How a sequence's embeddings become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    None = sys::COHORT_POOL_NONE as isize,
    Mean = sys::COHORT_POOL_MEAN as isize,
    Cls = sys::COHORT_POOL_CLS as isize,
    Last = sys::COHORT_POOL_LAST as isize,
}

/// How a model is opened; see `struct cohort_model_params`.
#[derive(Clone, Debug, Default)]
pub struct ModelParams {
    pub isa: Option<String>,
    pub n_threads: i32,
    pub vocab_only: bool,
    pub file_layout: bool,
    pub no_mmap: bool,
    pub mlock: bool,
    /// LoRA files, and how strongly each is applied.
    pub adapters: Vec<(String, f32)>,
}

#[derive(Clone, Debug)]
pub struct ModelInfo {
    pub arch: String,
    pub name: String,
    pub isa: String,
    pub tokenizer: String,
    pub note: String,
    pub n_vocab: usize,
    pub n_embd: usize,
    pub n_layer: usize,
    pub n_ctx_train: usize,
    pub n_params: u64,
    pub weight_bytes: u64,
    pub encoder: bool,
    pub recurrent: bool,
    pub pooling: Pooling,
}

/// A GGUF file. Immutable: threads share it in an `Arc`, and what is made of it keeps it.
pub struct Model {
    raw: *mut sys::cohort_model,
    info: ModelInfo,
    path: PathBuf,
}
// SAFETY: the library says of models that they are immutable and may be shared by threads.
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: contexts, engines and requests hold an Arc of the model, so that none is left.
        unsafe { sys::cohort_model_free(self.raw) }
    }
}
impl AsRef<Model> for Model {
    fn as_ref(&self) -> &Model {
        self
    }
}

pub(crate) fn c_string(s: &str) -> Result<CString> {
    CString::new(s).map_err(|_| Error::new(Status::Arg, "a text with a NUL in it"))
}
#[cfg(unix)]
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::new(Status::Arg, "a path with a NUL in it"))
}

impl Model {
    pub fn load(path: impl AsRef<Path>) -> Result<Model> {
        Model::load_with(path, &ModelParams::default())
    }

    pub fn load_with(path: impl AsRef<Path>, params: &ModelParams) -> Result<Model> {
        fits()?;
        let file = path.as_ref().to_path_buf();
        let path = c_path(&file)?;
        let isa = params.isa.as_deref().map(c_string).transpose()?;
        let files = params.adapters.iter().map(|a| c_string(&a.0)).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<*const c_char> = files.iter().map(|f| f.as_ptr()).collect();
        let scales: Vec<f32> = params.adapters.iter().map(|a| a.1).collect();
        // SAFETY: its own `_init`.
        let mut p = unsafe { defaults(sys::cohort_model_params_init) };
        p.isa = isa.as_ref().map_or(ptr::null(), |s| s.as_ptr());
        p.n_threads = params.n_threads;
        p.vocab_only = params.vocab_only;
        p.file_layout = params.file_layout;
        p.no_mmap = params.no_mmap;
        p.mlock = params.mlock;
        if !files.is_empty() {
            p.adapters = pointers.as_ptr() as _;
            p.adapter_scales = scales.as_ptr();
            p.n_adapters = files.len();
        }
        let mut raw = ptr::null_mut();
        // SAFETY: all pointers are good for the call.
        call(|e| unsafe { sys::cohort_model_open(path.as_ptr(), &p, &mut raw, e) })?;
        Ok(Model { raw, info: info(raw), path: file })
    }

    pub fn info(&self) -> &ModelInfo {
        &self.info
    }
    /// As it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }
    pub fn n_vocab(&self) -> usize {
        self.info.n_vocab
    }
    /// For calls of cohort-sys; good as long as the model.
    pub fn as_raw(&self) -> *const sys::cohort_model {
        self.raw
    }

    /// Tokens of a text. add_special: the model's own tokens around it, as it wants them. parse_special: texts of special
    /// tokens become these.
    pub fn tokenize(&self, text: impl AsRef<[u8]>, add_special: bool, parse_special: bool) -> Result<Vec<Token>> {
        let text = text.as_ref();
        let mut flags = if add_special { 0 } else { sys::COHORT_TOKENIZE_NO_BOS as u32 };
        if parse_special {
            flags |= sys::COHORT_TOKENIZE_SPECIAL as u32;
        }
        // SAFETY: a function of its argument alone.
        let mut out: Vec<Token> = Vec::with_capacity(unsafe { sys::cohort_tokenize_bound(text.len()) });
        // SAFETY: `filled` hands over room and its size.
        filled(&mut out, |to, max, n, e| unsafe {
            sys::cohort_tokenize(self.raw, text.as_ptr() as _, text.len(), flags, to, max, n, e)
        })?;
        Ok(out)
    }

    /// The text of tokens that begin one: the inverse of `tokenize`, byte for byte.
    pub fn detokenize(&self, tokens: &[Token], special: bool) -> Result<Vec<u8>> {
        let mut out: Vec<u8> = Vec::new();
        // SAFETY: as in tokenize.
        filled(&mut out, |to, max, n, e| unsafe {
            sys::cohort_detokenize(self.raw, tokens.as_ptr(), tokens.len(), special, to as _, max, n, e)
        })?;
        Ok(out)
    }

    /// The bytes of one token, which need not be whole characters; `Detok` makes these of several.
    pub fn token_to_bytes(&self, token: Token, leading_space: bool, special: bool) -> Result<Vec<u8>> {
        let mut out: Vec<u8> = Vec::with_capacity(32);
        // SAFETY: as in tokenize.
        filled(&mut out, |to, max, n, e| unsafe {
            sys::cohort_token_piece(self.raw, token, leading_space, special, to as _, max, n, e)
        })?;
        Ok(out)
    }

    pub fn token_is_eog(&self, token: Token) -> bool {
        // SAFETY: any number may be asked for, here and below.
        unsafe { sys::cohort_token_is_eog(self.raw, token) }
    }
    pub fn token_bos(&self) -> Option<Token> {
        Some(unsafe { sys::cohort_token_bos(self.raw) }).filter(|t| *t >= 0)
    }
    pub fn token_eos(&self) -> Option<Token> {
        Some(unsafe { sys::cohort_token_eos(self.raw) }).filter(|t| *t >= 0)
    }

    /// A decoder of tokens that continue a text (or, at_start, begin one).
    pub fn detok(&self, special: bool, at_start: bool) -> Detok<'_> {
        // SAFETY: init sets all of it.
        let mut raw: sys::cohort_detok = unsafe { std::mem::zeroed() };
        unsafe { sys::cohort_detok_init(&mut raw, self.raw, special, at_start) };
        Detok { raw, _model: PhantomData }
    }
}

/// Calls a function that writes at most so many elements and tells how many there are, with more room if that was too
/// little. `out` is empty, with what room it has.
fn filled<T>(
    out: &mut Vec<T>, mut f: impl FnMut(*mut T, usize, *mut usize, *mut sys::cohort_err) -> i32,
) -> Result<()> {
    loop {
        let mut n = 0;
        match call(|e| f(out.as_mut_ptr(), out.capacity(), &mut n, e)) {
            Err(e) if e.status == Status::Limit && n > out.capacity() => out.reserve(n),
            Err(e) => return Err(e),
            Ok(()) => {
                // SAFETY: n elements were written, as all went well.
                unsafe { out.set_len(n) };
                return Ok(());
            }
        }
    }
}

fn info(raw: *const sys::cohort_model) -> ModelInfo {
    // SAFETY: the library fills it in; its strings live as long as the model.
    let mut i: sys::cohort_model_info = unsafe { std::mem::zeroed() };
    unsafe { sys::cohort_model_info_get(raw, &mut i) };
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned();
    ModelInfo {
        arch: text(i.arch),
        name: text(i.name),
        isa: text(i.isa),
        tokenizer: text(i.tokenizer),
        note: text(i.note),
        n_vocab: i.n_vocab as usize,
        n_embd: i.n_embd as usize,
        n_layer: i.n_layer as usize,
        n_ctx_train: i.n_ctx_train as usize,
        n_params: i.n_params,
        weight_bytes: i.weight_bytes,
        encoder: i.encoder,
        recurrent: i.recurrent,
        pooling: match i.pooling {
            sys::COHORT_POOL_MEAN => Pooling::Mean,
            sys::COHORT_POOL_CLS => Pooling::Cls,
            sys::COHORT_POOL_LAST => Pooling::Last,
            _ => Pooling::None,
        },
    }
}

/// Tokens to bytes as they come, in whole characters. It borrows the model:
///
/// ```compile_fail
/// # fn f() -> cohort::Result<()> {
/// let model = cohort::Model::load("model.gguf")?;
/// let mut detok = model.detok(false, false);
/// drop(model);
/// detok.push(5)?;
/// # Ok(()) }
/// ```
/// ```no_run
/// # fn f() -> cohort::Result<()> {
/// let model = cohort::Model::load("model.gguf")?;
/// let mut detok = model.detok(false, false);
/// detok.push(5)?;
/// drop(model);
/// # Ok(()) }
/// ```
pub struct Detok<'m> {
    raw: sys::cohort_detok,
    _model: PhantomData<&'m Model>,
}
// SAFETY: it reads a model, which threads share.
unsafe impl Send for Detok<'_> {}

impl Detok<'_> {
    pub fn push(&mut self, token: Token) -> Result<Vec<u8>> {
        let mut out: Vec<u8> = Vec::with_capacity(64);
        // SAFETY: as in tokenize.
        filled(&mut out, |to, max, n, e| unsafe { sys::cohort_detok_push(&mut self.raw, token, to as _, max, n, e) })?;
        Ok(out)
    }

    /// What was held back: an unfinished character.
    pub fn flush(&mut self) -> Vec<u8> {
        let mut out = [0u8; 4];
        // SAFETY: at most four bytes.
        let n = unsafe { sys::cohort_detok_flush(&mut self.raw, out.as_mut_ptr() as _) };
        out[..n].to_vec()
    }
}

/// What every token of a vocabulary says. Grammars and samplers keep the one they were made with.
pub struct Lexicon {
    raw: *mut sys::cohort_lexicon,
}
// SAFETY: immutable; the library says that threads may share it.
unsafe impl Send for Lexicon {}
unsafe impl Sync for Lexicon {}

impl Lexicon {
    pub fn new(model: &Model) -> Result<Arc<Lexicon>> {
        let mut raw = ptr::null_mut();
        // SAFETY: it copies what it needs of the model.
        call(|e| unsafe { sys::cohort_lexicon_open(model.raw, &mut raw, e) })?;
        Ok(Arc::new(Lexicon { raw }))
    }
    pub(crate) fn as_raw(&self) -> *const sys::cohort_lexicon {
        self.raw
    }
}
impl Drop for Lexicon {
    fn drop(&mut self) {
        // SAFETY: what was made with it holds an Arc of it.
        unsafe { sys::cohort_lexicon_free(self.raw) }
    }
}

/// Which texts may be generated. Threads may share it.
pub struct Grammar {
    raw: *mut sys::cohort_grammar,
    _lexicon: Arc<Lexicon>,
}
// SAFETY: it has a lock of its own.
unsafe impl Send for Grammar {}
unsafe impl Sync for Grammar {}

impl Grammar {
    /// GBNF; a whole text matches the rule `root`.
    pub fn gbnf(lexicon: &Arc<Lexicon>, text: &str) -> Result<Arc<Grammar>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the lexicon lives as long as the grammar, here and below.
        call(|e| unsafe {
            sys::cohort_grammar_open(lexicon.raw, text.as_ptr() as _, text.len(), ptr::null(), &mut raw, e)
        })?;
        Ok(Arc::new(Grammar { raw, _lexicon: lexicon.clone() }))
    }

    /// The documents that a JSON schema describes.
    pub fn json_schema(lexicon: &Arc<Lexicon>, schema: &str) -> Result<Arc<Grammar>> {
        let mut raw = ptr::null_mut();
        call(|e| unsafe {
            sys::cohort_grammar_open_schema(lexicon.raw, schema.as_ptr() as _, schema.len(), &mut raw, e)
        })?;
        Ok(Arc::new(Grammar { raw, _lexicon: lexicon.clone() }))
    }

    /// How many bytes of a text can be followed, and whether it is a whole one.
    pub fn matches(&self, text: impl AsRef<[u8]>) -> Result<(usize, bool)> {
        let (mut n, mut complete, text) = (0, false, text.as_ref());
        call(|e| unsafe {
            sys::cohort_grammar_match(self.raw, text.as_ptr() as _, text.len(), &mut n, &mut complete, e)
        })?;
        Ok((n, complete))
    }
    pub(crate) fn as_raw(&self) -> *mut sys::cohort_grammar {
        self.raw
    }
}
impl Drop for Grammar {
    fn drop(&mut self) {
        // SAFETY: samplers and requests hold an Arc of it.
        unsafe { sys::cohort_grammar_free(self.raw) }
    }
}

pub(crate) fn n_tokens(tokens: &[Token]) -> Result<i32> {
    count(tokens.len())
}
