// Integers of 64 bits of the contract: a bigint, or what the engine of the plugin takes in its place.

const TYPE = Symbol.for("shelly-plugin.integers");

/** Makes each integer of 64 bits a number: for an engine that has no others. */
export function useNumbers() {
  globalThis[TYPE] = Number;
}

export function asInteger(number) {
  return (globalThis[TYPE] ?? BigInt)(number);
}
