/** A value and its revision, which changes with every write of the key. */
export interface Entry {
  value: Uint8Array;
  revision: bigint;
}

/** Reads a value. Keys have 1 to 512 bytes. */
export function get(key: string): Entry | undefined;
/** Writes a value, whatever the key holds. Bounds: 1 MiB a value, 64 MiB and 65,536 keys a store. */
export function set(key: string, value: Uint8Array): void;
/** Removes a key if it exists. */
export function remove(key: string): void;
/**
 * Writes a value, or removes it if it is undefined, if the key still has this revision; undefined: if it does not exist.
 * Otherwise changes nothing and returns false: read again and repeat, or use `update`.
 */
export function compareAndSwap(key: string, expected: bigint | undefined, value: Uint8Array | undefined): boolean;
/** Returns the keys that start with `prefix` and come after `after`, in byte order. Bound: 1,000 a call. */
export function keys(prefix?: string, after?: string): string[];
/** Reads a value that `put` or `update` wrote. */
export function read<T = unknown>(key: string): T | undefined;
/** Writes a value as JSON. */
export function put(key: string, value: unknown): void;
/**
 * Changes a value that is stored as JSON, and returns the new one; undefined removes it. `change` is called again if another
 * call has written the key meanwhile, so it must have no side effects.
 */
export function update<T>(key: string, change: (value: T | undefined) => T): T;
