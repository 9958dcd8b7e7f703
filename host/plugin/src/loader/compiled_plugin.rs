use std::sync::Arc;

use wasmtime::component::Component;

use super::load::compile;
use crate::{error::PluginError, package::PluginPackage, runtime::PluginEngine};
use shelly_core::digest::Sha256Digest;

/// The native code of a plugin. While it exists, loading the plugin reads no file, so another component may take its place on
/// the disk. Clones share it; with the last one the engine forgets the tools of the component.
#[derive(Clone)]
pub struct CompiledPlugin {
    /// Held, never read: what matters is when the last clone goes.
    _code: Arc<SharedPluginCode>,
}

struct SharedPluginCode {
    engine: Arc<PluginEngine>,
    digest: Sha256Digest,
    /// Keeps the code in memory.
    _component: Arc<Component>,
}

impl CompiledPlugin {
    /// Compiles a plugin, or takes the code that is there.
    ///
    /// # Errors
    ///
    /// [`PluginError`] if the component cannot be compiled, or is not the one that was checked.
    pub async fn of(engine: &Arc<PluginEngine>, package: &Arc<PluginPackage>) -> Result<Self, PluginError> {
        let component = compile(engine, package).await?;
        let code = SharedPluginCode { engine: Arc::clone(engine), digest: package.digest, _component: component };
        Ok(Self { _code: Arc::new(code) })
    }
}

impl Drop for SharedPluginCode {
    fn drop(&mut self) {
        self.engine.forget_specs(self.digest);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Plugin, PluginSettings};

    /// A component with one function of this name.
    fn component(function: &str) -> Vec<u8> {
        let text = format!(
            "(component (core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
             (func (export \"{function}\") (canon lift (core func $i \"f\"))))"
        );
        wat::parse_str(text).unwrap()
    }

    #[tokio::test]
    async fn replaced_code_is_dropped_with_its_last_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.wasm");
        fs::write(&path, component("go")).unwrap();
        let engine = Arc::new(PluginEngine::new(None).unwrap());
        let package = Arc::new(PluginPackage::read_file(&path).unwrap());
        let compiled = CompiledPlugin::of(&engine, &package).await.unwrap();
        let code = Arc::downgrade(&compiled._code._component);
        // The next build takes its place on the disk.
        fs::write(&path, component("run")).unwrap();
        let settings = PluginSettings::new("ada", "a test");
        let plugin = Plugin::load(&engine, &package, &settings).await.unwrap();
        // As if the component had been asked for its tools.
        engine.keep_specs(package.digest, "", &Arc::from([]));
        let again = compiled.clone();
        drop(compiled);
        assert!(engine.specs(package.digest, "").is_some(), "somebody may load it again");
        drop(again);
        assert!(engine.specs(package.digest, "").is_none());
        assert!(code.upgrade().is_some(), "a plugin of a run still calls it");
        drop(plugin);
        assert!(code.upgrade().is_none());
        let error = Plugin::load(&engine, &package, &settings).await.err().unwrap();
        assert!(matches!(error, PluginError::Changed { .. }), "{error}");
    }
}
