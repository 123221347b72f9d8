//! The output of the tour: printed, and recorded for the README's picture of a terminal, which the
//! browser of the page test renders.

use crate::browser::Browser;
use serde_json::json;
use std::cell::RefCell;
use std::path::Path;

/// The style; width and height follow from the text in this font.
const STYLE: &str = "margin:0;padding:14px;background:#14171c;color:#d8dee6;\
    font:13px/18px 'DejaVu Sans Mono',monospace;white-space:pre;width:max-content";

/// The output since the last `clear`.
#[derive(Default)]
pub(crate) struct Terminal(RefCell<String>);

impl Terminal {
    /// Prints a text and keeps it.
    pub(crate) fn print(&self, text: &str) {
        println!("{text}");
        let mut kept = self.0.borrow_mut();
        kept.push_str(text);
        kept.push('\n');
    }

    pub(crate) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    /// Renders the output as PNG. `folder` is for the browser.
    pub(crate) fn picture(&self, folder: &Path) -> Vec<u8> {
        std::fs::create_dir_all(folder).unwrap();
        let mut browser = Browser::open("about:blank", folder.to_path_buf());
        let text = json!(self.0.borrow().trim()).to_string();
        browser.evaluate(&format!(
            "document.body.style.cssText = {}; document.body.textContent = {text}",
            json!(STYLE)
        ));
        let mut size = |of: &str| {
            let pixels = browser.evaluate(&format!("Math.ceil(document.body.{of})")).as_u64();
            u32::try_from(pixels.unwrap()).unwrap()
        };
        let (width, height) = (size("offsetWidth"), size("offsetHeight"));
        browser.picture(width, height)
    }
}
