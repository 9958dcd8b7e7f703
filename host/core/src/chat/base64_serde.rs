/// Serializes bytes as base64 in JSON: a third longer than the bytes, where a list of numbers is four times as long.
pub(crate) mod as_base64 {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<u8>>>(from: D) -> Result<T, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        STANDARD.decode(&*text).map(T::from).map_err(|_| D::Error::custom("invalid base64"))
    }
}
