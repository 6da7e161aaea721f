//! What no compiler checks: budgets of files, their opening words, unsafe code in its one place,
//! dependencies that are used, links that lead somewhere, nothing of one machine or one workplace.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use system_tests::workspace_folder;

/// Lines of a file that are not tests.
const LINES_MAX: usize = 800;

/// The only file that may hold unsafe code.
const UNSAFE: &str = "broker/store/src/mapped_file.rs";

/// Text files of the project, as paths from its root, with what is in them.
fn files(extensions: &[&str]) -> Vec<(String, String)> {
    const SKIPPED: [&str; 5] = ["target", ".git", "node_modules", "testdata", "corpus"];
    let root = workspace_folder();
    let mut open = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if extensions.contains(&extension(&path)) {
                // A file that is no text is none of ours to read.
                let Ok(text) = fs::read_to_string(&path) else { continue };
                found.push((path.strip_prefix(&root).unwrap().display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

/// The extension of a file's name; scripts without one count as `sh`.
fn extension(path: &Path) -> &str {
    path.extension().map_or("sh", |extension| extension.to_str().unwrap_or_default())
}

fn rust_files() -> Vec<(String, String)> {
    let files = files(&["rs"]);
    assert!(files.len() > 50, "the project's files were not found");
    files
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[track_caller]
fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// Where each text stands that `wrong` finds in a line.
fn lines_where(files: &[(String, String)], wrong: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files {
        for (number, line) in text.lines().enumerate() {
            if wrong(path, line) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn files_keep_to_their_budget() {
    let mut sizes: Vec<(usize, String)> = Vec::new();
    for (path, text) in rust_files().into_iter().filter(|(path, _)| !is_test_file(path)) {
        let tests = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        sizes.push((text[..tests].lines().count(), path));
    }
    sizes.sort_unstable();
    let at = |part: usize| &sizes[(sizes.len() - 1) * part / 100];
    println!("{} files: median {:?}, p90 {:?}, largest {:?}", sizes.len(), at(50), at(90), at(100));
    let over = sizes.iter().filter(|(lines, _)| *lines > LINES_MAX);
    assert_none(
        "too long",
        &over.map(|(lines, path)| format!("{path}: {lines}")).collect::<Vec<_>>(),
    );
}

#[test]
fn files_open_with_what_they_are() {
    let files = rust_files();
    // A file of tests says whose they are by its name; attributes may come first.
    let opens = |text: &str| text.lines().take(10).any(|line| line.starts_with("//! "));
    let silent = files.iter().filter(|(path, text)| !path.ends_with("/tests.rs") && !opens(text));
    assert_none("no opening paragraph", &silent.map(|(path, _)| path.clone()).collect::<Vec<_>>());
}

#[test]
fn no_test_is_switched_off() {
    let attribute = concat!("#[", "ignore");
    assert_none("ignored", &lines_where(&rust_files(), |_, line| line.contains(attribute)));
}

#[test]
fn unsafe_code_is_in_one_file() {
    let keyword = concat!("uns", "afe ");
    let found = lines_where(&rust_files(), |path, line| {
        let code = line.trim_start();
        path != UNSAFE && !code.starts_with("//") && code.contains(keyword) && code.contains('{')
    });
    assert_none("unsafe code", &found);
}

#[test]
fn nothing_names_one_machine_or_workplace() {
    let words = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let all = files(&["rs", "md", "toml", "sh", "java", "go", "js", "py", "xml", "yaml", "yml"]);
    let found = lines_where(&all, |_, line| words.iter().any(|word| line.contains(word)));
    assert_none("paths of one machine", &found);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let root = workspace_folder();
    let mut dead = Vec::new();
    for (path, text) in files(&["md"]) {
        let folder = root.join(&path).parent().unwrap().to_path_buf();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let outside = target.is_empty() || target.contains("://") || target.contains(' ');
            if !outside && !folder.join(target).exists() {
                dead.push(format!("{path}: {link}"));
            }
        }
    }
    assert_none("dead links", &dead);
}

/// The packages' folders, by their manifests.
fn packages() -> Vec<(PathBuf, String)> {
    let root = workspace_folder();
    let manifests = files(&["toml"]).into_iter().filter(|(path, text)| {
        path.ends_with("Cargo.toml") && text.contains("[package]") && !path.starts_with("fuzz/")
    });
    manifests.map(|(path, text)| (root.join(path).parent().unwrap().to_path_buf(), text)).collect()
}

/// The names under `[dependencies]` and `[dev-dependencies]`.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = matches!(line, "[dependencies]" | "[dev-dependencies]");
        } else if inside && line.contains('=') && !line.starts_with('#') {
            names.extend(line.split(['.', ' ', '=']).next());
        }
    }
    names
}

#[test]
fn dependencies_are_used() {
    let root = workspace_folder();
    let sources = rust_files();
    let packages = packages();
    assert!(packages.len() >= 5, "the packages were not found");
    let mut unused = Vec::new();
    for (folder, manifest) in &packages {
        let own = folder.strip_prefix(&root).unwrap().display().to_string() + "/";
        // The broker's folder holds the folders of the crates below it.
        let inner = |path: &str| {
            packages.iter().any(|(other, _)| {
                other != folder && other.starts_with(folder) && root.join(path).starts_with(other)
            })
        };
        let mine = || sources.iter().filter(|(path, _)| path.starts_with(&own) && !inner(path));
        for name in dependencies(manifest) {
            let word = name.replace('-', "_");
            if !mine().any(|(_, text)| text.contains(&word)) {
                unused.push(format!("{own}Cargo.toml: {name}"));
            }
        }
    }
    assert_none("unused dependencies", &unused);
}

#[test]
fn crates_form_a_line() {
    let may_use = [
        ("broker/protocol", vec![]),
        ("broker/store", vec!["broker-protocol"]),
        ("broker/client", vec!["broker-protocol"]),
        ("broker", vec!["broker-protocol", "broker-store", "broker-client"]),
    ];
    let root = workspace_folder();
    for (folder, allowed) in may_use {
        let manifest = fs::read_to_string(root.join(folder).join("Cargo.toml")).unwrap();
        for name in dependencies(&manifest).into_iter().filter(|name| name.starts_with("broker-")) {
            assert!(allowed.contains(&name), "{folder} depends on {name}");
        }
    }
    let protocol = fs::read_to_string(root.join("broker/protocol/Cargo.toml")).unwrap();
    assert!(!dependencies(&protocol).contains(&"tokio"), "the protocol does no IO");
}
