// Connects the sections below the translation, which show the model's internals.

import { figureView } from "./figure.js";
import { guessView } from "./guess.js";
import { headsView } from "./heads.js";
import { searchView } from "./search.js";
import { tokensView } from "./tokens.js";
import { walkView } from "./walk.js";

export function views(page, look) {
  tokensView(page, look);
  figureView(page);
  walkView(page);
  headsView(page, look);
  searchView(page);
  guessView(page);
}
