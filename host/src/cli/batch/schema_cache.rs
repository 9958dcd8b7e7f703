use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use super::task_line::SchemaSource;
use crate::{digest::Sha256Digest, error::Report, limits, task::AnswerSchema};

/// The compiled schemas of a batch, up to [`limits::ANSWER_SCHEMAS_KEPT`]. Tasks with the same schema share one, and with it
/// the knowledge of which servers refuse it.
#[derive(Default)]
pub(super) struct SchemaCache(Mutex<HashMap<Sha256Digest, AnswerSchema>>);

impl SchemaCache {
    /// Returns the schema. A file is read once.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be read or used.
    pub fn get(&self, source: &SchemaSource) -> Result<AnswerSchema, Report> {
        let key = match source {
            SchemaSource::Inline(schema) => Sha256Digest::of(schema.to_string()),
            SchemaSource::File(path) => Sha256Digest::of(format!("file {}", path.display())),
        };
        if let Some(schema) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(schema.clone());
        }
        let schema = match source {
            SchemaSource::Inline(schema) => AnswerSchema::new(schema)?,
            SchemaSource::File(path) => AnswerSchema::read(path)?,
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= limits::ANSWER_SCHEMAS_KEPT {
            kept.clear();
        }
        kept.insert(key, schema.clone());
        Ok(schema)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kept_schemas_are_bounded() {
        let cache = SchemaCache::default();
        for least in 0..=limits::ANSWER_SCHEMAS_KEPT {
            let schema = cache.get(&SchemaSource::Inline(json!({"minimum": least}))).unwrap();
            assert!(schema.value_of(&least.to_string()).is_ok());
        }
        assert_eq!(cache.0.lock().unwrap().len(), 1);
        assert!(cache.get(&SchemaSource::Inline(json!({"$ref": "#"}))).is_err());
        assert_eq!(cache.0.lock().unwrap().len(), 1, "a failure is not kept");
    }

    #[test]
    fn schema_file_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        std::fs::write(&path, "{\"type\": \"null\"}").unwrap();
        let (cache, source) = (SchemaCache::default(), SchemaSource::File(path.clone()));
        assert!(cache.get(&source).unwrap().value_of("null").is_ok());
        std::fs::remove_file(path).unwrap();
        assert!(cache.get(&source).unwrap().value_of("null").is_ok());
    }
}
