//! Shell completions and the man page, generated from [`crate::arguments`]. Target names come from
//! the running init through the hidden verb `__targets`.

use crate::arguments::{self, Arguments, EXAMPLES, EXIT_CODES, GROUPS};
use crate::exit::{Error, Exit};
use crate::session::{self, Session};
use clap::CommandFactory;
use clap_complete::Shell;
use groundstate_units::control::answer::Status;
use groundstate_units::control::request::Verb;
use std::collections::BTreeSet;

/// Verbs that take targets or units.
const WITH_TARGETS: &str = "status set-target plan why want unwant mask unmask enable disable \
    restart reload-unit kill retry logs tree critical-chain cat";

// Bash splits words at characters that names may contain (`job@one`), so the script reads the line
// itself; `$2` is the part that is replaced.
const BASH: &str = r#"
_initctl_targets() {
    _initctl "$@"
    local word words before="" verb="" socket=() typed kept sign="" names
    typed="${COMP_LINE:0:COMP_POINT}"
    read -ra words <<<"${typed%"${typed##*[[:space:]]}"}"
    typed="${typed##*[[:space:]]}"
    for word in "${words[@]:1}"; do
        case "$before" in
            --socket) socket=(--socket "$word") ;;
            --color) ;;
            *) case "$word" in
                    --socket=*) socket=("$word") ;;
                    -*) ;;
                    *) verb="${verb:-$word}" ;;
                esac ;;
        esac
        before="$word"
    done
    case "$before" in
        --socket | --color) return ;;
        -s | --signal)
            COMPREPLY=($(compgen -W "HUP INT QUIT USR1 USR2 TERM KILL STOP CONT" -- "$2"))
            return
            ;;
        --for | --timeout | --since | --lines | -n | --after)
            COMPREPLY=()
            compopt +o default +o bashdefault 2>/dev/null
            return
            ;;
    esac
    case " VERBS explain " in
        *" $verb "*) ;;
        *) return ;;
    esac
    case "$typed" in
        --*) return ;;
        +*) sign="+" ;;
        -*) case "$verb" in
                set-target|plan) sign="-" ;;
                *) return ;;
            esac ;;
    esac
    if [ "$verb" = explain ]; then
        names="$(initctl explain 2>/dev/null | sed -n 's/^  \([^ ]*\) .*/\1/p')"
    else
        names="$(initctl "${socket[@]}" __targets 2>/dev/null)"
    fi
    kept="${typed%"$2"}"
    [ -z "$kept" ] || COMPREPLY=()
    for word in $(compgen -P "$sign" -W "$names" -- "${typed#"$sign"}"); do
        COMPREPLY+=("${word#"$kept"}")
    done
}
complete -F _initctl_targets -o nosort -o bashdefault -o default initctl 2>/dev/null ||
    complete -F _initctl_targets -o bashdefault -o default initctl
"#;

const ZSH: &str = r#"
_initctl_with_targets() {
    local verb="${words[(r)(VERBS_BAR|explain)]}" at=${words[(i)--socket]}
    if [[ -n "$verb" && "$PREFIX" != --* && "${words[CURRENT-1]}" != initctl ]]; then
        local -a names socket
        (( at < CURRENT - 1 )) && socket=(--socket "${words[at+1]}")
        if [[ "$verb" == explain ]]; then
            names=(${(f)"$(initctl explain 2>/dev/null | sed -n 's/^  \([^ ]*\) .*/\1/p')"})
        else
            names=(${(f)"$(initctl $socket __targets 2>/dev/null)"})
        fi
        case "$PREFIX" in
            +*) compadd -P + -- $names ;;
            -*) _initctl "$@"; [[ "$verb" == (set-target|plan) ]] && compadd -P - -- $names ;;
            *) compadd -- $names ;;
        esac
        return
    fi
    _initctl "$@"
}
compdef _initctl_with_targets initctl
"#;

const FISH: &str = r#"
complete -c initctl -n "__fish_seen_subcommand_from VERBS" -f -a "(initctl __targets 2>/dev/null)"
complete -c initctl -n "__fish_seen_subcommand_from explain" -f -a "(initctl explain 2>/dev/null | string replace -rf '^  (\S+) .*' '\$1')"
"#;

/// `completions`.
pub(crate) fn completions(shell: Shell) -> Result<Exit, Error> {
    let mut written = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "initctl", &mut written);
    let mut text = String::from_utf8_lossy(&written).into_owned();
    let verbs = WITH_TARGETS.split_whitespace().collect::<Vec<_>>();
    let ours = [(Shell::Bash, BASH), (Shell::Zsh, ZSH), (Shell::Fish, FISH)];
    let dynamic = ours.iter().find(|(of, _)| *of == shell).map_or("", |(_, text)| text);
    let dynamic = dynamic.replace("VERBS_BAR", &verbs.join("|"));
    text.push_str(&dynamic.replace("VERBS", &verbs.join(" ")));
    session::print(&text)?;
    Ok(Exit::Done)
}

/// `man`.
pub(crate) fn man() -> Result<Exit, Error> {
    let mut written = Vec::new();
    // Makes the text independent of the terminal.
    let command = arguments::command().term_width(80);
    let man = clap_mangen::Man::new(command.clone()).section("8");
    man.render_title(&mut written)?;
    man.render_name_section(&mut written)?;
    man.render_synopsis_section(&mut written)?;
    man.render_description_section(&mut written)?;
    man.render_options_section(&mut written)?;
    let mut text = String::from_utf8_lossy(&written).into_owned();
    for (title, verbs) in GROUPS {
        text.push_str(&format!(".SH {}\n", title.to_uppercase()));
        for verb in verbs.iter().filter_map(|name| command.find_subcommand(name)) {
            let mut verb = verb.clone().term_width(80).after_help("");
            let help = verb.render_long_help().to_string();
            let name = roff(verb.get_name());
            text.push_str(&format!(".SS {name}\n.nf\n{}\n.fi\n", roff(&help)));
        }
    }
    let examples = EXAMPLES.map(|(line, effect)| format!("{line:<33}{effect}\n")).concat();
    text.push_str(&format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", roff(&examples)));
    text.push_str(&format!(".SH EXIT CODES\n{}.\n", roff(EXIT_CODES)));
    session::print(&text)?;
    Ok(Exit::Done)
}

/// Escapes text for roff.
fn roff(text: &str) -> String {
    let lines = text.trim_end().lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with('.') || line.starts_with('\'') { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `__targets`: prints names, one per line; nothing without an init.
pub(crate) fn targets(session: &Session) -> Result<Exit, Error> {
    let Ok((status, _)) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() }) else {
        return Ok(Exit::Done);
    };
    let mut names: BTreeSet<String> =
        status.targets.into_iter().map(|target| target.target).collect();
    names.extend(status.units.into_iter().map(|unit| unit.unit));
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    session::print(&text)?;
    Ok(Exit::Done)
}
