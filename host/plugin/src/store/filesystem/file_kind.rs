use rustix::fs::FileType;
use wasmtime_wasi::p2::bindings::filesystem::types::DescriptorType;

/// Converts a file type to WASI's, as wasmtime-wasi does.
pub fn kind(found: FileType) -> DescriptorType {
    match found {
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        _ => DescriptorType::Unknown,
    }
}
