// VS Code's JSON language service. Documents carry `text`, and for the questions "completions" and
// "hover" in `ask` an offset `at`; without `ask` the answer lists {line, message, deprecated}.

import vscode from "vscode-json-languageservice";
import { answer, library, place, settings } from "./answer.mjs";

const { ErrorCode, TextDocument, getLanguageService } = vscode;
const plain = (text) => (typeof text === "object" ? text.value : (text ?? ""));

await answer(async ({ schemas, documents }) => {
  const service = getLanguageService({ schemaRequestService: library(schemas) });
  service.configure(settings(schemas));

  const questions = {
    async problems(document, parsed) {
      const found = await service.doValidation(document, parsed);
      return found.map(({ range, message, code }) => ({
        line: range.start.line + 1,
        message,
        deprecated: code === ErrorCode.Deprecated,
      }));
    },

    async completions(document, parsed, position) {
      const { items } = await service.doComplete(document, position, parsed);
      return items.map(({ label, documentation, insertText }) => ({
        label,
        documentation: plain(documentation),
        inserts: insertText,
      }));
    },

    async hover(document, parsed, position) {
      const shown = await service.doHover(document, position, parsed);
      return shown ? shown.contents.map(plain) : [];
    },
  };

  const pairs = documents.map(async ({ ask = "problems", at = 0, ...asked }) => {
    const document = TextDocument.create(place(asked), "json", 1, asked.text);
    const parsed = service.parseJSONDocument(document);
    return [asked.name, await questions[ask](document, parsed, document.positionAt(at))];
  });
  return Promise.all(pairs);
});
