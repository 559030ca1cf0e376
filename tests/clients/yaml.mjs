// The language service inside yaml-language-server. Documents carry `text`; the answer lists
// {line, message}. It has no code that sets a deprecation apart.

import { createRequire } from "node:module";
import { answer, library, place, settings } from "./answer.mjs";

const require = createRequire(import.meta.url);
const { getLanguageService } = require("yaml-language-server");
const { TextDocument } = require("vscode-languageserver-textdocument");

await answer(async ({ schemas, documents }) => {
  const service = getLanguageService({ schemaRequestService: library(schemas) });
  service.configure(settings(schemas));
  const pairs = [];
  for (const asked of documents) {
    const document = TextDocument.create(place(asked), "yaml", 1, asked.text);
    const found = await service.doValidation(document, false);
    const problems = found.map(({ range, message }) => ({ line: range.start.line + 1, message }));
    pairs.push([asked.name, problems]);
  }
  return pairs;
});
