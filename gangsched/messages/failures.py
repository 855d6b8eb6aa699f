"""Why a command cannot answer, or the process cannot start, go on or reach its cluster; what commands say on stderr."""

from __future__ import annotations

from gangsched.messages.text import Text

# Commands

NAME_MISSING = "which gang or pod? Give its name: gangsched explain NAME"
NO_GANGS = "there are no gangs here"
NOTHING_ON_RECORD = "nothing is on record"
NOT_DECIDED = "no scheduler has decided about it yet"
WATCH_FORMS = "--watch follows a cluster, as table, wide or name"
nodes_at_least_one = Text("{count} more nodes: at least 1 is needed")
no_such_namespace = Text("there is no namespace {name}{nearest}")
no_node = Text("there is no node {name}{nearest}")
nothing_of_that_name = Text("there is no node or pod {name}")
until_not_positive = Text("until_seconds: {seconds:g} is not more than 0")
no_gang = Text("there is no gang {name}")
record_of_namespace = Text(
    "of namespace {namespace} only, by Events (kept for an hour) and conditions of Jobs: you may not read the record of"
    " all evictions; ask for the ClusterRole {role}"
)
record_unreadable = Text("the ConfigMap {name} in namespace {namespace} cannot be read: {error}")
REPLACED_ONE_BY_ONE = "its pods are replaced one by one; a gang starts together"
single_pod = Text("a single pod starts by itself; for a gang of pods create a PodGroup and give each the label {label}")
WITHOUT_NAME = "it has no name"
gang_of_its_policy = Text(
    "{templates} with schedulerName {scheduler}; its podGroupPolicy ({policy}) makes a PodGroup of each TrainJob"
)
made_a_gang = Text("{templates} with the {field} {key} and schedulerName {scheduler}")
NO_TEMPLATE = "there is no template of pods here"
NO_CONTAINERS = "this template of pods has no containers"
NOT_A_MAPPING = "is no mapping"
GANG_OF_VOLCANO = (
    "Volcano makes a group of it, and its pods when that is admitted:"
    " give the scheduler a profile called volcano, and leave it as it is"
)
GANG_OF_ITS_OPERATOR = "its operator makes a group for this scheduler: leave batchScheduler out"
pods_of_runtime = Text("its pods are made of the {kind} {name}: give that in the same input, which is changed then")
kind_makes_no_gang = Text(
    "it is not known which pods a {kind} makes when: give them the label {label}, and create a PodGroup of that name"
)
later_by_webhook = Text(
    "with {annotation} the webhook of JobSet lets the followers of each Job be created when its first pod has a node:"
    " that starts when there is room for them too, in its domain"
)
LATER_BY_LEADER = "the workers of a group are created after their leader: that starts when there is room for them too"
LATER_BY_DRIVER = "executors are created by the driver: that starts when there is room for them too"
in_another_gang = Text("its pods belong to the gang {other} already")
cannot_be_a_gang = Text("cannot be made a gang: {cannot}")
MANIFESTS_OR_CLUSTER = "-f reads manifests, --kubeconfig and --context a cluster: give one of them"
CONNECTING = "connecting to the cluster …"
not_a_port = Text("{text!r} is not a number from 0 to 65535")
or_seconds = Text("{error} (or seconds since 1970)")
not_a_name = Text("{text!r} is not [kind/]name or namespace/name")
kind_unknown = Text("{kind!r} is no kind that is known here; known are {names}")
NOTHING_TO_PLAN = "give manifests with -f, or --cluster to read a cluster, or both"
rows_left_out = Text("… and {count} more (-o json has all)")
NOTHING_TO_SIMULATE = "there is nothing to simulate: name manifests with -f, or a trace with --trace"
JOBS_WITHOUT_TRACE = "--jobs is for --trace"
not_a_number_of_jobs = Text("{text!r} is not a number of jobs")
until_no_duration = Text("--until: {raw!r} is not a duration such as 90s, 10m or 2h")
begins_at = Text("begins at {time}")
no_eviction = Text("no eviction of {kind} {space}/{name} is on record, which {begins}")

# The process

may_not_list = Text("you may not list {resources} in the whole cluster (403 Forbidden)")
may_not_list_here = Text("you may not list pods in the namespace {namespace} (403 Forbidden)")
ask_for_role = Text(
    "ask for the ClusterRole {role}: kubectl create clusterrolebinding NAME --clusterrole={role} --user=YOU"
)
ask_for_role_here = Text(
    "ask for the ClusterRole {role} in it:"
    " kubectl create rolebinding NAME -n {namespace} --clusterrole={role} --user=YOU"
)
of_one_namespace = Text(
    "of namespace {namespace} only: you may not read {closed} of the whole cluster, which decisions rest on;"
    " ask for the ClusterRole {role}"
)
unreadable = Text("{source} cannot be read: {error}")
scheduling = Text("scheduling pods of {names}{dry_run}")
DRY_RUN = " (dry run: nothing is written)"
lease_not_free = Text("the Lease is not free: {holder}")
LEASE_NOT_TAKEN = "it cannot be taken"
io_loop_stands = Text("the I/O loop has not moved for {seconds:.0f} s")
lease_not_renewed = Text("not renewed for {seconds:g} s")
lease_of_another = Text("{holder} holds the lease")

# Connections

SERVICE_ACCOUNT = "service account of this pod"
of_context = Text("kubeconfig {path}, context {context}")
no_cluster = Text(
    "no cluster to talk to: no --kubeconfig, no KUBECONFIG, no {default}, and this is not a pod of a cluster"
)
no_kubeconfig_for_context = Text("context {context!r} was asked for, but there is no kubeconfig to look it up in")
kubeconfig_missing = Text("kubeconfig {path}: no such file")
kubeconfig_of_environment_missing = Text("kubeconfig {path} (from KUBECONFIG): no such file")
no_credentials = Text("{where}: no credentials after {seconds:.0f} s")
answer_too_large = Text("the answer is larger than {most} bytes")
LENGTH_MISSING = "the length of the answer is missing"
proxy_refuses = Text("the proxy answers {status} to CONNECT {url}")
not_http = Text("the answer is not HTTP: {why}")
NO_REFRESH = "oidc: the id-token has expired, and there is no refresh-token"
redirected = Text("{url}: an API server does not redirect")
NOT_ONE_LINE = "the token has a control character in it, as a line break is: no header can have that"
CONNECTION_CLOSED = "the connection was closed before the answer was complete"
port_taken = Text("cannot listen on {where}: {error}; choose another with --port or http.port")
BEARER_MISSING = "a bearer token is needed (Authorization: Bearer ...)"
port_of_ui = Text("cannot listen on 127.0.0.1:{port}: {error}; choose another with --port")
BEARER_OR_BASIC = "a token is needed, as a bearer token or as the password of any user (kubectl create token ...)"
#: A browser asks for a name, which does not matter, and a password, which is the token.
CHALLENGE = 'Basic realm="gangsched: the password is a token", charset="UTF-8"'
SKIPPABLE = "nothing was decided; --skip-invalid leaves out what cannot be understood, with a warning"
UNKNOWN_LENGTH = "the request does not say how long it is (Content-Length)"
too_much_sent = Text("more than {most} KiB were sent")
BEARER_UNKNOWN = "the API server does not know this token"
path_forbidden = Text(
    "the account of this token may not {verb} {path}: it needs a ClusterRole with that nonResourceURL"
)
NOT_CONNECTED = "there is no connection to the API server"
NO_ANSWER_IN_TIME = "no answer in time"
NOT_JUDGED = "the API server does not say who may read this; the scheduler's log has the reason"
TOO_MANY_ASK = "too many requests with tokens that are not known yet"
TOO_MANY_REQUESTS = "too many requests are answered at present: try again"
certificate_unusable = Text("http.tlsCertFile {certificate} and http.tlsKeyFile {key} cannot be used: {error}")
namespace_missing = Text("the Lease needs the namespace {name}, which does not exist: kubectl create namespace {name}")
unreachable = Text("{connection} cannot be reached: {error}")
refused = Text("{connection} refuses us: {error}")
NOT_SYNCED = "the caches are not synced yet"
thread_ended = Text("the decision thread has ended: {failure}")
decision_stands = Text("the decision thread has been deciding {gang} for {seconds:.0f} s")
thread_stands = Text("the decision thread has been in one step for {seconds:.0f} s")
no_tracing = Text(
    "tracing.enabled: {package} is not installed; pip install 'py-gang-scheduler[otel]', or set it to false"
)
