// The part that needs no host: it is tested on your own machine.

export function answer(prefix, texts) {
  return prefix + texts.join("");
}
