import { render } from "preact";
import { App } from "./app";
import { tick } from "./parts/Time";
import { listen } from "./router";
import { watchNotices } from "./state/notices";
import { watchPending } from "./state/pending";
import { restoreTheme } from "./state/theme";
import "./style/index.css";

restoreTheme();
listen();
tick();
watchPending();
watchNotices();
const root = document.getElementById("app");
if (root) render(<App />, root);
