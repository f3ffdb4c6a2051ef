// What a receiver has got, one JSON object a line on standard output: each request before anybody
// has judged it, and each event that the receiver's library has verified.
import { subscribe } from "node:diagnostics_channel";

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

subscribe("http.server.request.start", ({ request }) => {
  if (request.method === "POST") say({ got: request.headers });
});

export function verified({ id, name, payload }) {
  const text = payload.issue?.title ?? "";
  // As UTF-16 units, since a lone surrogate has no UTF-8.
  say({ verified: { id, event: name, title: Buffer.from(text, "utf16le").toString("hex") } });
}
