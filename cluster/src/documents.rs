//! Generates man pages and completions of fleetctl and fleetd from their command lines.
//! `contrib/man` and `contrib/completions` hold the output.

use clap::Command;
use clap_complete::Shell;

/// Generates the completion script for a shell.
pub fn completions(shell: Shell, mut command: Command) -> String {
    let name = command.get_name().to_string();
    let mut written = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut written);
    String::from_utf8_lossy(&written).into_owned()
}

/// Generates a section 8 man page with a section for each group of subcommands, followed by `more`.
///
/// # Errors
/// None known: it writes to memory.
pub fn man(command: Command, groups: &[(&str, &[&str])], more: &str) -> std::io::Result<String> {
    // Makes the text independent of the terminal and of environment variables.
    let command = command.term_width(80).mut_args(|arg| arg.hide_env(false).hide_env_values(true));
    let page = clap_mangen::Man::new(command.clone()).section("8");
    let mut written = Vec::new();
    page.render_title(&mut written)?;
    page.render_name_section(&mut written)?;
    page.render_synopsis_section(&mut written)?;
    page.render_description_section(&mut written)?;
    page.render_options_section(&mut written)?;
    let mut text = String::from_utf8_lossy(&written).into_owned();
    for (title, names) in groups {
        text.push_str(&format!(".SH {}\n", title.to_uppercase()));
        for one in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let help = one.clone().term_width(80).render_long_help().to_string();
            let name = plain(one.get_name());
            text.push_str(&format!(".SS {name}\n.nf\n{}\n.fi\n", plain(&help)));
        }
    }
    text.push_str(more);
    Ok(text)
}

/// Escapes text for roff.
pub fn plain(text: &str) -> String {
    let lines = text.trim_end().lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}
