import { render } from "preact";
import { App } from "./app";
import { startClock } from "./parts/Time";
import { listen } from "./router";
import { watchNotifications } from "./state/notifications";
import { watchPending } from "./state/pending";
import { restoreTheme } from "./state/theme";
import "./style/index.css";

restoreTheme();
listen();
startClock();
watchPending();
watchNotifications();
const root = document.getElementById("app");
if (root) render(<App />, root);
