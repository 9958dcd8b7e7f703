/** A value that does not fit. */
export class WrongValue extends Error {
  readonly path: string;
}

/** A type of values. Each method returns a new one. */
export interface Type<T> {
  /** Adds a description, which the model reads. */
  describe(description: string): Type<T>;
  /** May be left out: the value is `undefined` then. */
  optional(): Type<T | undefined>;
  /** May be left out: the value is this one then. */
  default(value: Exclude<T, undefined>): Type<Exclude<T, undefined>>;
  /** May be `null`. */
  nullable(): Type<T | null>;
  /** Sets the minimum of a number, or of the length of a string or array. */
  min(bound: number): Type<T>;
  /** Sets the maximum of a number, or of the length of a string or array. */
  max(bound: number): Type<T>;
  /** Returns the JSON Schema. */
  toSchema(): Record<string, unknown>;
  /** Returns the value. Throws a `WrongValue`. */
  parse(value: unknown, path?: string): T;
}

/** The TypeScript type of a type of values. */
export type Infer<S> = S extends Type<infer T> ? T : never;

/** The types of the properties of an object. */
export type Fields = Record<string, Type<any>>;

/** The TypeScript type of an object with these properties. */
export type ObjectOf<F extends Fields> = { [K in keyof F]: Infer<F[K]> };

/** A type of objects, whose properties are known. */
export interface ObjectType<T> extends Type<T> {}

/** The builder of schemas. */
export const s: {
  string(description?: string): Type<string>;
  integer(description?: string): Type<number>;
  number(description?: string): Type<number>;
  boolean(description?: string): Type<boolean>;
  any(description?: string): Type<unknown>;
  /** One of these values. */
  enum<const C extends readonly (string | number | boolean | null)[]>(choices: C, description?: string): Type<C[number]>;
  array<T>(items: Type<T>, description?: string): Type<T[]>;
  /** An object with any keys. */
  record<T>(values: Type<T>, description?: string): Type<Record<string, T>>;
  /** An object with these properties, and no others. */
  object<F extends Fields>(fields: F, description?: string): ObjectType<ObjectOf<F>>;
  /** The first of these types that fits. */
  union<const U extends readonly Type<any>[]>(types: U, description?: string): Type<Infer<U[number]>>;
};
