// What a run has shown, for the row that run.mjs prints.
import { appendFileSync } from 'node:fs';

/** Notes one thing that was shown: a trap that was met, the vectors that passed, the audit. */
export function report(what, text) {
  if (process.env.REPORT) appendFileSync(process.env.REPORT, `${JSON.stringify([what, text])}\n`);
}
