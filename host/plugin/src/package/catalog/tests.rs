use std::{fs, path::Path};

use super::*;
use shelly_core::digest::Sha256Digest;

/// Puts a plugin folder with this id and description into a directory. No test inspects its component.
fn put(directory: &Path, folder: &str, id: &str, description: &str) -> PathBuf {
    let path = directory.join(folder);
    fs::create_dir_all(&path).unwrap();
    let manifest =
        format!("id = \"{id}\"\ndescription = \"{description}\"\nkinds = [\"tool\"]\ncomponent = \"c.wasm\"\n");
    fs::write(path.join(MANIFEST_FILE), manifest).unwrap();
    fs::write(path.join("c.wasm"), "the component").unwrap();
    path
}

/// Returns an empty catalog with shipped plugins in one directory, and the person's in another.
fn catalog(shipped: &Path, personal: &Path) -> PluginCatalog {
    let shipped = ShippedPlugins { directories: vec![shipped.to_owned()], ..ShippedPlugins::default() };
    PluginCatalog::new(&ComponentCompiler::in_process()).with_shipped(shipped, vec![personal.to_owned()])
}

#[test]
fn folder_of_another_id_is_unusable_and_displaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let directories = [folder.path().join("personal")];
    put(&directories[0], "foo", "compact", "in the wrong folder");
    let right = put(&directories[0], "compact", "compact", "in the right folder");
    let mut catalog = catalog(&folder.path().join("none"), &directories[0]);
    catalog.add_by_id(&directories, ["foo", "compact"]);
    let compact = catalog.entry("compact").unwrap();
    assert_eq!((compact.location().path(), compact.is_unusable()), (Some(&*right), false));
    let report = catalog.get("foo").unwrap().unwrap_err().report();
    let path = directories[0].join("foo");
    assert_eq!(report.message, format!("{} contains the plugin `compact`, not `foo`", path.display()));
    assert!(report.hint.unwrap().starts_with("use `compact` in the config"));
}

#[test]
fn rebuilt_plugin_leaves_other_catalogs_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let dice = put(folder.path(), "dice", "dice", "the first");
    put(folder.path(), "other", "other", "another one");
    let before = PluginCatalog::scan(&[folder.path().to_owned()], &ComponentCompiler::in_process()).unwrap();
    put(folder.path(), "dice", "dice", "the second");
    let after = before.with_rebuilt(before.read_rebuilt(&dice));
    let about = |catalog: &PluginCatalog| catalog.entry("dice").unwrap().manifest().unwrap().description.clone();
    assert_eq!((about(&before), about(&after)), ("the first".into(), "the second".into()));
    assert!(std::ptr::eq(before.entry("other").unwrap(), after.entry("other").unwrap()), "it is not read again");
    assert_eq!(after.iter().map(|(id, _)| id).collect::<Vec<_>>(), ["dice", "other"]);
}

#[test]
fn outranked_plugin_is_noted_once() {
    let folder = tempfile::tempdir().unwrap();
    let (shipped, personal) = (folder.path().join("shipped"), folder.path().join("personal"));
    put(&shipped, "compact", "compact", "comes with the host");
    let own = put(&personal, "compact", "compact", "is my own");
    let mut catalog = catalog(&shipped, &personal);
    let directories = [personal];
    catalog.add_by_id(&directories, ["compact"]);
    catalog.add_all(&directories);
    assert_eq!(catalog.outranked(), [OutrankedPlugin { id: "compact".into(), path: own }]);
    assert_eq!(catalog.iter().map(|(id, _)| id).collect::<Vec<_>>(), ["compact"]);
}

#[test]
fn each_listed_id_is_found_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let directories = [folder.path().to_owned()];
    for name in ["Foo", "a.b", "a-b_c", "-c", "host", "plain", "the_adder"] {
        fs::write(folder.path().join(format!("{name}.wasm")), "a component").unwrap();
    }
    for name in ["good", "my_folder", "Upper"] {
        put(folder.path(), name, "good", "is good");
    }
    let ids = PluginCatalog::ids_in(&directories);
    assert_eq!(ids, ["good", "plain", "the-adder"]);
    let mut catalog = catalog(&folder.path().join("none"), &folder.path().join("none"));
    catalog.add_by_id(&directories, ids.iter().map(String::as_str));
    assert_eq!(catalog.iter().map(|(id, _)| id).collect::<Vec<_>>(), ids);
    assert!(catalog.iter().all(|(_, plugin)| !plugin.is_unusable()));
    // A plugin whose file has another name is found if its directory is named.
    assert!(PluginCatalog::has_plugin_in(folder.path()));
    assert!(!PluginCatalog::has_plugin_in(&folder.path().join("none")));
}

#[test]
fn component_is_not_read_if_the_manifests_differ() {
    let folder = tempfile::tempdir().unwrap();
    let (shipped, personal) = (folder.path().join("shipped"), folder.path().join("personal"));
    put(&shipped, "compact", "compact", "comes with the host");
    for (description, is_copy) in [("comes with the host", true), ("is my own", false)] {
        let own = put(&personal, "compact", "compact", description);
        let catalog = catalog(&shipped, &personal);
        let entry = catalog.read_entry(PluginLocation::at(&own));
        assert_eq!(catalog.is_shipped(&entry), is_copy, "{description}");
        // A component that was read is sealed: what is in the file later does not count.
        fs::write(own.join("c.wasm"), "another component").unwrap();
        let size = entry.sealed().unwrap().size;
        assert_eq!(size == "another component".len() as u64, !is_copy, "{description}: {size}");
    }
}

#[cfg(unix)]
#[test]
fn link_to_a_plugin_lies_only_where_the_link_is() {
    let folder = tempfile::tempdir().unwrap();
    let (own, links) = ([folder.path().join("own")], [folder.path().join("links")]);
    let plugin = put(&own[0], "compact", "compact", "is my own");
    fs::create_dir(&links[0]).unwrap();
    let link = links[0].join("compact");
    std::os::unix::fs::symlink(&plugin, &link).unwrap();
    let link = PluginLocation::at(&link);
    assert!(link.lies_in(&links) && !link.lies_in(&own));
    assert!(link.really_lies_in(&own) && !link.really_lies_in(&links));
}

/// Returns the entry of a lock file for the plugin in this folder.
fn locked(folder: &Path, id: &str, is_personal: bool) -> LockedPlugin {
    let digest = |name: &str| (name.to_owned(), Sha256Digest::of(fs::read(folder.join(name)).unwrap()));
    LockedPlugin {
        id: id.into(),
        folder: folder.to_owned(),
        component: "c.wasm".into(),
        files: [MANIFEST_FILE, "c.wasm"].map(digest).into(),
        lock: "shelly.lock".into(),
        is_personal,
        refusal: None,
    }
}

#[test]
fn locked_plugin_comes_before_those_of_searched_directories() {
    let folder = tempfile::tempdir().unwrap();
    let (store, personal) = (folder.path().join("store"), folder.path().join("personal"));
    let installed = put(&store, "5d0c", "dice", "is installed");
    put(&personal, "dice", "dice", "is in a directory");
    let shipped = put(&folder.path().join("shipped"), "compact", "compact", "comes with the host");
    let other = put(&store, "7f0e", "compact", "is installed");
    let with_locked = |catalog: PluginCatalog| {
        catalog.with_locked([locked(&installed, "dice", false), locked(&other, "compact", true)])
    };
    let mut found = with_locked(catalog(&folder.path().join("shipped"), &personal));
    found.add_by_id(std::slice::from_ref(&personal), ["dice", "compact"]);
    let place = |catalog: &PluginCatalog, id: &str| catalog.entry(id).unwrap().location().path().map(Path::to_owned);
    assert_eq!((place(&found, "dice"), place(&found, "compact")), (Some(installed.clone()), Some(shipped)));
    assert_eq!(found.outranked(), [OutrankedPlugin { id: "compact".into(), path: other.clone() }]);
    assert!(!found.entry("dice").unwrap().is_installed_for_person());
    let mut found = with_locked(catalog(&folder.path().join("none"), &personal));
    found.add_locked(|locked| locked.is_personal);
    assert_eq!(found.iter().map(|(id, _)| id).collect::<Vec<_>>(), ["compact"]);
    assert!(found.entry("compact").unwrap().is_installed_for_person());
}

#[test]
fn plugin_that_is_not_as_locked_is_unusable() {
    let folder = tempfile::tempdir().unwrap();
    let (altered, longer) = ("id = \"dice\"\nkinds = [\"tool\"]\ncomponent = \"d.wasm\"\n", "package a:b;");
    for (file, text, says) in [
        ("c.wasm", "another component", "c.wasm is sha256:"),
        (MANIFEST_FILE, altered, "plugin.toml is sha256:"),
        ("c.wit", longer, "c.wit is a file of a plugin that shelly.lock does not name"),
    ] {
        let place = put(&folder.path().join(file), "5d0c", "dice", "is installed");
        let entry = locked(&place, "dice", false);
        fs::write(place.join(file), text).unwrap();
        let mut catalog = PluginCatalog::new(&ComponentCompiler::in_process()).with_locked([entry]);
        catalog.add_by_id(&[], ["dice"]);
        let report = catalog.get("dice").unwrap().unwrap_err().report();
        assert!(report.message.contains(says), "{report}");
        if !says.contains("does not name") {
            assert!(report.message.contains(", but shelly.lock names sha256:"), "{report}");
        }
    }
    let place = put(folder.path(), "gone", "dice", "is installed");
    let entry = locked(&place, "dice", false);
    fs::remove_dir_all(&place).unwrap();
    let refused = LockedPlugin { refusal: Some(("no signature".into(), "sign it".into())), ..entry.clone() };
    for (entry, says) in [
        (entry, format!("plugin `dice` is in shelly.lock, but not in {}", place.display())),
        (refused, "plugin `dice` must not be used: no signature".into()),
    ] {
        let mut catalog = PluginCatalog::new(&ComponentCompiler::in_process()).with_locked([entry]);
        catalog.add_by_id(&[], ["dice"]);
        assert_eq!(catalog.get("dice").unwrap().unwrap_err().report().message, says);
    }
}
