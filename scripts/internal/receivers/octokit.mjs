// A plain receiver of GitHub's webhooks, as the documentation of @octokit/webhooks shows it.
import { createServer } from "node:http";
import { createNodeMiddleware, Webhooks } from "@octokit/webhooks";
import { verified } from "./report.mjs";

const webhooks = new Webhooks({ secret: process.env.WEBHOOK_SECRET });
webhooks.onAny(verified);
createServer(createNodeMiddleware(webhooks)).listen(process.env.PORT, "127.0.0.1");
