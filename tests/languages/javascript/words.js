// The world `words` in JavaScript.
export function countWords(text) {
  const words = text.split(/\s+/).filter(Boolean);
  console.log(`${words.length} words in JavaScript`);
  return { words: words.length, longest: words.reduce((a, b) => (b.length > a.length ? b : a), "") };
}
