//! Detects whether a script supports `reload`: one of its `case` statements has such a label. No
//! shell reads the script, so text that only looks like a label (in a here-document) counts too.

/// Returns true if the script has a label `reload`, alone or among others.
pub(super) fn offers_reload(text: &str) -> bool {
    let lines = text.split('\n').map(str::trim).filter(|line| !line.starts_with('#'));
    // A label is at the start of a line, after the end of the previous branch, or after the head of
    // its statement.
    let mut pieces =
        lines.flat_map(|line| line.split(";;")).map(|piece| match piece.split_once(" in ") {
            Some((head, rest)) if head.trim_start().starts_with("case ") => rest,
            Some(_) | None => piece,
        });
    pieces.any(|piece| {
        let Some((label, _)) = piece.split_once(')') else { return false };
        let label = label.trim().trim_start_matches('(');
        let mut words = label.split('|').map(|word| word.trim().trim_matches(['"', '\'']));
        let is_word = |word: &str| {
            word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.*?[]".contains(&byte))
        };
        words.clone().all(is_word) && words.any(|word| word == "reload")
    })
}

#[cfg(test)]
mod tests {
    use super::offers_reload;

    #[test]
    fn reload_is_offered_only_by_a_case_label() {
        for text in [
            "case \"$1\" in\n  reload)\n",
            "case $1 in\n  start) a;;\n  reload|force-reload)\n",
            "case $1 in start) a;; restart | reload ) b;; esac\n",
            "case $1 in reload) a;; esac\n",
            "case $1 in (\"reload\") a;; esac\n",
            "\t'reload')\r\n",
        ] {
            assert!(offers_reload(text), "{text}");
        }
        for text in [
            "",
            "echo \"Usage: $0 {start|stop|reload}\"\n",
            "echo 'start|reload|x' )\n",
            "# reload)\n",
            "case $1 in\n  force-reload)\n",
            "reload() {\n",
            "reload\n",
            "log \"reload\")\n",
            "for verb in start reload) x\n",
        ] {
            assert!(!offers_reload(text), "{text}");
        }
    }
}
