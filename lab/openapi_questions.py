"""Questions about large OpenAPI documents, each with the operations that answer it.

Written by reading the documents, before the ranking was changed, in the words of a person who does not know them.
"""

from collections.abc import Mapping
from typing import Final

QUESTIONS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "Kubernetes": {
        "list pods of a namespace": ("listCoreV1NamespacedPod",),
        "get a deployment": ("readAppsV1NamespacedDeployment",),
        "delete a secret": ("deleteCoreV1NamespacedSecret",),
        "create a namespace": ("createCoreV1Namespace",),
        "scale a deployment": ("patchAppsV1NamespacedDeploymentScale", "replaceAppsV1NamespacedDeploymentScale"),
        "show the logs of a pod": ("readCoreV1NamespacedPodLog",),
        "list all nodes of the cluster": ("listCoreV1Node",),
        "update a config map": ("replaceCoreV1NamespacedConfigMap", "patchCoreV1NamespacedConfigMap"),
        "run a command in a container": ("connectCoreV1PostNamespacedPodExec", "connectCoreV1GetNamespacedPodExec"),
        "evict a pod": ("createCoreV1NamespacedPodEviction",),
        "get the status of a job": ("readBatchV1NamespacedJobStatus",),
        "remove a service account": ("deleteCoreV1NamespacedServiceAccount",),
        "list ingresses in all namespaces": ("listNetworkingV1IngressForAllNamespaces",),
        "create a cron job": ("createBatchV1NamespacedCronJob",),
        "which version is the server": ("getCodeVersion",),
        "list persistent volumes": ("listCoreV1PersistentVolume",),
        "read a role binding": ("readRbacAuthorizationV1NamespacedRoleBinding",),
        "list events in a namespace": ("listCoreV1NamespacedEvent", "listEventsV1NamespacedEvent"),
        "get pod": ("readCoreV1NamespacedPod",),
        "delete the daemon set": ("deleteAppsV1NamespacedDaemonSet",),
    },
    "GitHub": {
        "create an issue": ("issues_create",),
        "list pull requests of a repository": ("pulls_list",),
        "get a commit": ("repos_get-commit",),
        "star a repository": ("activity_star-repo-for-authenticated-user",),
        "delete a branch protection": ("repos_delete-branch-protection",),
        "add labels to an issue": ("issues_add-labels",),
        "merge a pull request": ("pulls_merge",),
        "who am I": ("users_get-authenticated",),
        "search code": ("search_code",),
        "list workflow runs": ("actions_list-workflow-runs", "actions_list-workflow-runs-for-repo"),
        "fork a repo": ("repos_create-fork",),
        "create a release": ("repos_create-release",),
    },
    "Stripe": {
        "create a refund": ("PostRefunds",),
        "list customers": ("GetCustomers",),
        "cancel a subscription": (
            "DeleteSubscriptionsSubscriptionExposedId",
            "DeleteCustomersCustomerSubscriptionsSubscriptionExposedId",
        ),
        "get a payment intent": ("GetPaymentIntentsIntent",),
        "update a product": ("PostProductsId",),
        "delete a coupon": ("DeleteCouponsCoupon",),
        "create an invoice": ("PostInvoices",),
        "show my balance": ("GetBalance",),
        "create a customer": ("PostCustomers",),
        "retrieve a charge": ("GetChargesCharge",),
    },
    "Slack": {
        "post a message to a channel": ("chat_postMessage",),
        "list channels": ("conversations_list",),
        "upload a file": ("files_upload",),
        "add a reaction to a message": ("reactions_add",),
        "invite a user to a channel": ("conversations_invite",),
        "delete a message": ("chat_delete",),
        "find a user by email": ("users_lookupByEmail",),
        "set my status": ("users_profile_set",),
        "schedule a message": ("chat_scheduleMessage",),
        "list the members of a channel": ("conversations_members",),
    },
}
