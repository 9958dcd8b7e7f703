//! Options by which reading programs write files or run other programs.

use std::path::Path;

/// The known options of a program.
struct KnownOptions {
    /// The names of the program.
    names: &'static [&'static str],
    /// The long options, with their dashes.
    long: &'static [&'static str],
    /// The one-letter options.
    short: &'static [char],
    /// `true` if a long option may be abbreviated.
    abbreviates: bool,
}

/// Programs that configs allow with any options since they normally only read, and their options that do more.
const KNOWN: [KnownOptions; 6] = [
    KnownOptions {
        names: &["git"],
        long: &[
            "--output",
            "--output-directory",
            "--ext-diff",
            "--textconv",
            "--exec",
            "--extcmd",
            "--open-files-in-pager",
            "--upload-pack",
            "--receive-pack",
            "--template",
        ],
        short: &['o', 'O'],
        abbreviates: true,
    },
    KnownOptions {
        names: &["find", "gfind"],
        long: &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"],
        short: &[],
        abbreviates: false,
    },
    KnownOptions {
        names: &["fd", "fdfind"],
        long: &["--exec", "--exec-batch"],
        short: &['x', 'X'],
        abbreviates: false,
    },
    KnownOptions { names: &["rg"], long: &["--pre", "--hostname-bin"], short: &[], abbreviates: false },
    KnownOptions {
        names: &["sort", "gsort"],
        long: &["--output", "--compress-program"],
        short: &['o'],
        abbreviates: true,
    },
    KnownOptions { names: &["tree"], long: &[], short: &['o'], abbreviates: false },
];

/// Subcommands of git whose `-o` and `-O` neither write files nor run programs.
const GIT_PLAIN: [&str; 5] = ["commit", "ls-files", "ls-tree", "push", "rev-list"];

/// Global git options before the subcommand that are harmless. The others direct git elsewhere or set what it runs.
const GIT_GLOBAL: [&str; 5] = ["--no-pager", "--no-optional-locks", "--literal-pathspecs", "--version", "--help"];

/// Returns the positions of the arguments that make this program write a file or run another program. Empty for unknown
/// programs.
pub fn that_do_more(command: &str, args: &[String]) -> Vec<usize> {
    let name =
        Path::new(command).file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let Some(known) = KNOWN.iter().find(|known| known.names.contains(&name)) else { return Vec::new() };
    // No options follow `--`, except for `find`, whose expressions are recognized anywhere.
    let options =
        args.iter().position(|arg| arg == "--").filter(|_| !known.names.contains(&"find")).unwrap_or(args.len());
    let options = &args[..options];
    let subcommand = (name == "git").then(|| git_subcommand(options));
    let does_more = |(at, arg): (usize, &String)| match subcommand {
        Some(first) if at < first => !GIT_GLOBAL.contains(&arg.as_str()),
        Some(first) => known.is_among(arg, options.get(first).map(String::as_str)),
        None => known.is_among(arg, None),
    };
    options.iter().enumerate().filter(|one| does_more(*one)).map(|(at, _)| at).collect()
}

/// Returns the position of git's subcommand: the first word that is neither an option nor an option's value.
fn git_subcommand(args: &[String]) -> usize {
    let mut at = 0;
    while let Some(arg) = args.get(at).filter(|arg| arg.starts_with('-')) {
        let has_value = matches!(
            arg.as_str(),
            "-c" | "-C"
                | "--git-dir"
                | "--work-tree"
                | "--namespace"
                | "--exec-path"
                | "--config-env"
                | "--super-prefix"
        );
        at += 1 + usize::from(has_value);
    }
    at.min(args.len())
}

impl KnownOptions {
    fn is_among(&self, arg: &str, subcommand: Option<&str>) -> bool {
        let name = arg.split_once('=').map_or(arg, |(name, _)| name);
        let stands_for = |long: &&str| {
            name == *long
                || self.abbreviates && name.len() > "--".len() && name.starts_with("--") && long.starts_with(name)
        };
        if self.long.iter().any(stands_for) {
            return true;
        }
        let Some(letters) = arg.strip_prefix('-').filter(|rest| !rest.is_empty() && !rest.starts_with('-')) else {
            return false;
        };
        match subcommand {
            None => letters.contains(self.short),
            Some(subcommand) if GIT_PLAIN.contains(&subcommand) => false,
            // One-letter options can be combined, and the last may have its value attached.
            Some("archive" | "format-patch") => letters.contains('o'),
            // `-o` only prints the matching part.
            Some("grep") => letters.contains('O'),
            Some("rebase" | "difftool") => letters.contains('x'),
            Some(_) => letters.starts_with(self.short),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_and_running_options_are_detected() {
        for (command, args, expected) in [
            ("git", "log --oneline -5", &[][..]),
            ("git", "log --output=/tmp/x", &[1]),
            ("git", "log -p --output /tmp/x", &[2]),
            ("git", "diff --output-directory=x", &[1]),
            ("git", "diff --outp=x", &[1]),
            ("git", "diff --o=x", &[1]),
            ("git", "log --oneline", &[]),
            ("git", "diff --ext-diff", &[1]),
            ("git", "diff --ext", &[1]),
            ("git", "diff --no-ext-diff", &[]),
            ("git", "diff --output-indicator-new=x", &[]),
            ("git", "diff -- --output=x", &[]),
            ("git", "diff x --output=x", &[2]),
            ("git", "show --textconv HEAD", &[1]),
            ("git", "archive -o x HEAD", &[1]),
            ("git", "archive -vox HEAD", &[1]),
            ("git", "format-patch -ox", &[1]),
            ("git", "log -o x", &[1]),
            ("git", "log -Sfoo", &[]),
            ("git", "grep -on foo", &[]),
            ("git", "grep -nOvi foo", &[1]),
            ("git", "grep --open-files-in-pager=vi foo", &[1]),
            ("git", "ls-files -o --exclude-standard", &[]),
            ("git", "rebase -x id", &[1]),
            ("git", "rebase --exec=id", &[1]),
            ("git", "ls-remote --upload-pack=id x", &[1]),
            ("git", "-c core.pager=id log", &[0, 1]),
            ("git", "-ccore.pager=id log", &[0]),
            ("git", "-C /elsewhere status", &[0, 1]),
            ("git", "--git-dir=/elsewhere status", &[0]),
            ("git", "--no-pager log", &[]),
            ("git", "--exec-path=/x log --output=y", &[0, 2]),
            ("git", "", &[]),
            ("git", "-p", &[0]),
            ("/usr/bin/git", "log --output=x", &[1]),
            ("GIT.EXE", "log --output=x", &[1]),
            ("find", ". -name x", &[]),
            ("find", ". -name x -exec id ;", &[3]),
            ("find", "-- . -delete", &[2]),
            ("find", ". -fprintf x y", &[1]),
            ("fd", "-H x", &[]),
            ("fd", "-Hx id", &[0]),
            ("rg", "--pre=id x", &[0]),
            ("rg", "--pretty x", &[]),
            ("sort", "-u x", &[]),
            ("sort", "-uo x", &[0]),
            ("sort", "--out x", &[0]),
            ("tree", "-o x", &[0]),
            ("cc", "-o x", &[]),
        ] {
            let args: Vec<_> = args.split_whitespace().map(str::to_owned).collect();
            assert_eq!(that_do_more(command, &args), expected, "{command} {args:?}");
        }
    }
}
