//! Rows to decode.

use crate::error::{call, count, fits, Error, Result, Status};
use crate::{Pos, Seq, Token};
use cohort_sys as sys;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A growing list of tokens whose first 32 need no heap.
pub struct TokenBuffer {
    raw: sys::cohort_token_buf,
}
// SAFETY: it owns what it points to, and holds no pointer into itself.
unsafe impl Send for TokenBuffer {}
unsafe impl Sync for TokenBuffer {}

impl TokenBuffer {
    pub fn new() -> TokenBuffer {
        let mut raw = MaybeUninit::<sys::cohort_token_buf>::zeroed();
        // SAFETY: zeroed, and then filled in.
        unsafe {
            sys::cohort_token_buf_init(raw.as_mut_ptr());
            TokenBuffer { raw: raw.assume_init() }
        }
    }
    pub fn extend(&mut self, tokens: &[Token]) -> Result<()> {
        let n = count(tokens.len())?;
        // SAFETY: n tokens are there.
        call(|e| unsafe { sys::cohort_token_buf_append(&mut self.raw, tokens.as_ptr(), n, e) })
    }
    pub fn len(&self) -> usize {
        self.raw.n_tokens as usize
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn as_slice(&mut self) -> &[Token] {
        // SAFETY: n_tokens of them, good until the buffer is changed or moved, which the borrow forbids.
        unsafe { std::slice::from_raw_parts(sys::cohort_token_buf_get(&mut self.raw), self.len()) }
    }
}
impl Default for TokenBuffer {
    fn default() -> Self {
        TokenBuffer::new()
    }
}
impl Drop for TokenBuffer {
    fn drop(&mut self) {
        // SAFETY: released once.
        unsafe { sys::cohort_token_buf_release(&mut self.raw) }
    }
}

/// Rows to decode: each a token (or a vector), a position, sequence ids, and whether its output is wanted. Up to 32 rows
/// of one id need no heap. It holds no pointer into itself, so that it may be moved.
///
/// A view borrows its tokens, which must outlive it:
///
/// ```compile_fail
/// use cohort::Batch;
/// let tokens = vec![1, 2, 3];
/// let batch = Batch::view(&tokens).unwrap();
/// drop(tokens);
/// assert_eq!(batch.len(), 3);
/// ```
/// ```
/// use cohort::Batch;
/// let tokens = vec![1, 2, 3];
/// let batch = Batch::view(&tokens).unwrap();
/// assert_eq!(batch.len(), 3);
/// drop(batch);
/// drop(tokens);
/// ```
pub struct Batch<'a> {
    raw: sys::cohort_batch,
    /// What a batch of `from_tokens_owned` views: on the heap, so that it stays where it is when the batch is moved.
    _owned: Vec<Token>,
    _tokens: PhantomData<&'a [Token]>,
}
// SAFETY: it owns or borrows what it points to; a shared one is only read.
unsafe impl Send for Batch<'_> {}
unsafe impl Sync for Batch<'_> {}

fn make(f: impl FnOnce(*mut sys::cohort_batch, *mut sys::cohort_err) -> i32) -> Result<sys::cohort_batch> {
    fits()?;
    let mut raw = MaybeUninit::<sys::cohort_batch>::zeroed();
    call(|e| f(raw.as_mut_ptr(), e))?;
    // SAFETY: zeroed, and then filled in.
    Ok(unsafe { raw.assume_init() })
}

impl<'a> Batch<'a> {
    /// Room for max_tokens rows of up to max_seq ids; embd > 0: rows are vectors of so many floats.
    pub fn new(max_tokens: usize, embd: i32, max_seq: usize) -> Result<Batch<'static>> {
        let (n, m) = (count(max_tokens)?, count(max_seq)?);
        // SAFETY: init fills the batch, here and below.
        let raw = make(|b, e| unsafe { sys::cohort_batch_init(b, n, embd, m, e) })?;
        Ok(Batch { raw, _owned: Vec::new(), _tokens: PhantomData })
    }

    /// Bare tokens, copied: decoding fills in sequence 0, the positions that come next, and output for the last.
    pub fn from_tokens(tokens: &[Token]) -> Result<Batch<'static>> {
        let n = count(tokens.len())?;
        let raw = make(|b, e| unsafe { sys::cohort_batch_from_tokens(b, tokens.as_ptr(), n, e) })?;
        Ok(Batch { raw, _owned: Vec::new(), _tokens: PhantomData })
    }

    /// The same without a copy.
    pub fn from_tokens_owned(tokens: Vec<Token>) -> Result<Batch<'static>> {
        let n = count(tokens.len())?;
        let raw = make(|b, e| unsafe { sys::cohort_batch_view(b, tokens.as_ptr(), n, e) })?;
        Ok(Batch { raw, _owned: tokens, _tokens: PhantomData })
    }

    pub fn from_token_buffer(mut tokens: TokenBuffer) -> Result<Batch<'static>> {
        let raw = make(|b, e| unsafe { sys::cohort_batch_from_buffer(b, &mut tokens.raw, e) })?;
        Ok(Batch { raw, _owned: Vec::new(), _tokens: PhantomData })
    }

    /// Bare tokens, borrowed.
    pub fn view(tokens: &'a [Token]) -> Result<Batch<'a>> {
        let n = count(tokens.len())?;
        let raw = make(|b, e| unsafe { sys::cohort_batch_view(b, tokens.as_ptr(), n, e) })?;
        Ok(Batch { raw, _owned: Vec::new(), _tokens: PhantomData })
    }

    /// Adds a row. An error past the room there is: a batch never grows.
    pub fn add(&mut self, token: Token, pos: Pos, seqs: &[Seq], output: bool) -> Result<()> {
        let n = count(seqs.len())?;
        // SAFETY: n ids are there.
        call(|e| unsafe { sys::cohort_batch_add(&mut self.raw, token, pos, seqs.as_ptr(), n, output, e) })
    }

    /// Adds a vector, copied.
    pub fn add_vector(&mut self, vector: &[f32], pos: Pos, seqs: &[Seq], output: bool) -> Result<()> {
        let n = count(seqs.len())?;
        if vector.len() != self.raw.n_embd.max(0) as usize {
            let text = format!("a vector of {} floats; the batch has rows of {}", vector.len(), self.raw.n_embd);
            return Err(Error::new(Status::Arg, text));
        }
        // SAFETY: n_embd floats, one position, n ids.
        call(|e| unsafe {
            sys::cohort_batch_add_embd(&mut self.raw, vector.as_ptr(), &pos, seqs.as_ptr(), n, output, e)
        })
    }

    pub fn len(&self) -> usize {
        // SAFETY: reads a number.
        unsafe { sys::cohort_batch_size(&self.raw) as usize }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// No rows; the room stays.
    pub fn clear(&mut self) {
        unsafe { sys::cohort_batch_reset(&mut self.raw) }
    }
    /// A second one with the same rows, which owns its arrays.
    pub fn try_clone(&self) -> Result<Batch<'static>> {
        let raw = make(|b, e| unsafe { sys::cohort_batch_copy(b, &self.raw, e) })?;
        Ok(Batch { raw, _owned: Vec::new(), _tokens: PhantomData })
    }
    /// For calls of cohort-sys.
    pub fn as_raw(&self) -> &sys::cohort_batch {
        &self.raw
    }
}

/// 512 rows of one id. Panics without memory.
impl Default for Batch<'static> {
    fn default() -> Self {
        Batch::new(512, 0, 1).expect("a batch of 512 rows")
    }
}
impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // SAFETY: released once; the tokens of a view are not its own.
        unsafe { sys::cohort_batch_release(&mut self.raw) }
    }
}
