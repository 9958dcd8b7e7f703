// Imported for its effect alone.
export {};
