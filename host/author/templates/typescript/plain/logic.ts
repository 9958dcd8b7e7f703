// The part that needs no host: it is tested on your own machine.

export function counts(text: string): { words: number; lines: number; characters: number } {
  return {
    words: text.split(/\s+/).filter(Boolean).length,
    lines: text === "" ? 0 : text.replace(/\n$/, "").split("\n").length,
    characters: [...text].length,
  };
}
