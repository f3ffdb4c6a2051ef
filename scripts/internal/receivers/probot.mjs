// An app for `probot run`: nothing of it knows that there is a preloop.
import { verified } from "./report.mjs";

export default (app) => app.onAny(verified);
