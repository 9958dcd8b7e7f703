/** Light or dark: as the system says, until a person chooses. */

export type Theme = "auto" | "light" | "dark";

const KEY = "shelly-theme";

/** Storage may be forbidden, as in a file that is opened from a disk. */
function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto";
  }
}

function isDarkSystem(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

let chosen: Theme = "auto";

export const theme = {
  /** The theme that is shown. */
  value: (): "light" | "dark" => (chosen === "auto" ? (isDarkSystem() ? "dark" : "light") : chosen),

  start(changed: () => void): void {
    chosen = stored();
    theme.apply();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      theme.apply();
      changed();
    });
  },

  apply(): void {
    document.documentElement.dataset.theme = theme.value();
  },

  toggle(): void {
    chosen = theme.value() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // It holds for this page only.
    }
    theme.apply();
  },
};
