//! Chat templates: conversations as the text that a model was trained on.

use crate::error::{call, defaults, Error, Result, Status};
use crate::model::{c_path, c_string, Model};
use crate::Token;
use cohort_sys as sys;
use std::ptr;
use std::sync::Arc;

/// What a template gets beside the messages. Texts are JSON, but for `now`.
#[derive(Clone, Debug)]
pub struct ChatOptions {
    /// An array of functions that the model may call.
    pub tools: Option<String>,
    pub documents: Option<String>,
    /// An object of further variables: `{"enable_thinking": false}`.
    pub variables: Option<String>,
    /// For templates that tell the date: "2025-01-02T03:04:05".
    pub now: Option<String>,
    pub add_generation_prompt: bool,
}

impl Default for ChatOptions {
    fn default() -> Self {
        ChatOptions { tools: None, documents: None, variables: None, now: None, add_generation_prompt: true }
    }
}

/// How a model writes conversations: the template of its file, or the Jinja text that is given. Threads may share it.
pub struct ChatTemplate {
    raw: *mut sys::cohort_template,
    model: Arc<Model>,
}
// SAFETY: immutable; the library says that threads may share it.
unsafe impl Send for ChatTemplate {}
unsafe impl Sync for ChatTemplate {}

impl Drop for ChatTemplate {
    fn drop(&mut self) {
        // SAFETY: nothing else has it.
        unsafe { sys::cohort_template_free(self.raw) }
    }
}

/// The template in a model's file.
fn of_file(model: &Model) -> Result<Vec<u8>> {
    let path = c_path(model.path())?;
    let key = c_string("tokenizer.chat_template")?;
    let mut g = ptr::null_mut();
    // SAFETY: all pointers are good for the calls; the value is copied before the file is closed.
    unsafe {
        call(|e| sys::cohort_gguf_open(path.as_ptr(), &mut g, e))?;
        let mut kv: sys::cohort_gguf_kv = std::mem::zeroed();
        let found = sys::cohort_gguf_kv_find(g, key.as_ptr(), &mut kv);
        let text = if found && !kv.value.str.is_null() {
            std::slice::from_raw_parts(kv.value.str as *const u8, kv.value.n_str).to_vec()
        } else {
            Vec::new()
        };
        sys::cohort_gguf_free(g);
        if found {
            return Ok(text);
        }
    }
    Err(Error::new(Status::Arg, format!("{} has no chat template: give the source of one", model.path().display())))
}

fn quoted(s: &str, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 32 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

impl ChatTemplate {
    /// `source`: None for the model's own.
    pub fn new(model: Arc<Model>, source: Option<&str>) -> Result<ChatTemplate> {
        let text = match source {
            Some(s) => s.as_bytes().to_vec(),
            None => of_file(&model)?,
        };
        let mut raw = ptr::null_mut();
        // SAFETY: it copies what it needs of the text.
        call(|e| unsafe { sys::cohort_template_open(text.as_ptr() as _, text.len(), &mut raw, e) })?;
        Ok(ChatTemplate { raw, model })
    }

    fn special(&self, token: Option<Token>) -> Result<String> {
        let text = token.map_or(Ok(Vec::new()), |t| self.model.token_to_bytes(t, true, true))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The text of a conversation; `messages` is a JSON array of objects with a `role` and a `content`.
    pub fn render_json(&self, messages: &str, options: &ChatOptions) -> Result<String> {
        let texts = [
            Some(messages),
            options.tools.as_deref(),
            options.documents.as_deref(),
            options.variables.as_deref(),
            options.now.as_deref(),
        ];
        let texts = texts.iter().map(|t| t.map(c_string).transpose()).collect::<Result<Vec<_>>>()?;
        let at = |i: usize| texts[i].as_ref().map_or(ptr::null(), |t| t.as_ptr());
        let bos = c_string(&self.special(self.model.token_bos())?)?;
        let eos = c_string(&self.special(self.model.token_eos())?)?;
        // SAFETY: its own `_init`.
        let mut p = unsafe { defaults(sys::cohort_template_params_init) };
        p.messages = at(0);
        p.tools = at(1);
        p.documents = at(2);
        p.extra = at(3);
        p.now = at(4);
        p.bos_token = bos.as_ptr();
        p.eos_token = eos.as_ptr();
        p.add_generation_prompt = options.add_generation_prompt;
        let (mut out, mut n) = (ptr::null_mut(), 0);
        // SAFETY: the texts live until the end of the call; what comes is copied and freed.
        unsafe {
            call(|e| sys::cohort_template_render(self.raw, &p, &mut out, &mut n, e))?;
            let text = String::from_utf8_lossy(std::slice::from_raw_parts(out as *const u8, n)).into_owned();
            sys::cohort_template_text_free(out);
            Ok(text)
        }
    }

    /// The text of a conversation of pairs: role and content.
    pub fn render(&self, messages: &[(&str, &str)]) -> Result<String> {
        let mut json = String::from("[");
        for (i, (role, content)) in messages.iter().enumerate() {
            json.push_str(if i > 0 { ",{\"role\":" } else { "{\"role\":" });
            quoted(role, &mut json);
            json.push_str(",\"content\":");
            quoted(content, &mut json);
            json.push('}');
        }
        json.push(']');
        self.render_json(&json, &ChatOptions::default())
    }

    /// A rendered text as tokens, for a context or an engine. A begin token that the template writes is not there twice.
    pub fn tokens(&self, text: &str) -> Result<Vec<Token>> {
        let bos = self.special(self.model.token_bos())?;
        self.model.tokenize(text, bos.is_empty() || !text.starts_with(&bos), true)
    }
}
