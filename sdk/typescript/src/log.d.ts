/** Logs a message for troubleshooting. Bounds: 4 KiB an entry (cut), 1,000 entries a call (then dropped and counted). */
export function debug(message: unknown): void;
/** Logs a normal event. */
export function info(message: unknown): void;
/** Logs an unusual event that does not prevent the work. */
export function warn(message: unknown): void;
/** Logs a failure. */
export function error(message: unknown): void;
