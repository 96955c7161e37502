import { requestNotifications, notificationState } from "../../state/notifications";

/** Offers browser notifications. The browser asks for permission only after a click. */
export function NotificationButton() {
  switch (notificationState.value) {
    case "default":
      return (
        <button type="button" onClick={() => void requestNotifications()}>
          Notify me
        </button>
      );
    case "granted":
      return <span class="small dim">Notifications are on</span>;
    case "denied":
      return <span class="small dim">Notifications are blocked by the browser</span>;
    case "none":
      return null;
  }
}
