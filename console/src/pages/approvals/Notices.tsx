import { askForNotices, noticeLeave } from "../../state/notices";

/** Offers notifications of the browser. Nothing is asked for before the button is pressed. */
export function Notices() {
  switch (noticeLeave.value) {
    case "default":
      return (
        <button type="button" onClick={() => void askForNotices()}>
          Notify me
        </button>
      );
    case "granted":
      return <span class="small dim">Notifications are on</span>;
    case "denied":
      return <span class="small dim">The browser blocks notifications</span>;
    case "none":
      return null;
  }
}
