"""What is wrong with an object, a setting or a plug-in: the field is named beside it."""

from __future__ import annotations

from gangsched.messages.text import Text

# Values

none_of = Text("{value} is none of {allowed}")
one_of = Text("one of {allowed}")
and_more = Text("and {count} more")
neither = Text("{value} is neither {one} nor {other}")
not_between = Text("{value} is not between {low} and {high}")
not_whole_between = Text("{value} is not a whole number from {low} to {high}")
below = Text("{value} is below {least}")
not_32_bits = Text("{value} does not fit 32 bits")
not_a_quantity = Text("{value!r} is not a quantity (examples: 2, 500m, 1.5Gi)")
must_be = Text("must be {wanted}, not {found}")
is_not = Text("is {found}, not {wanted}")
unsupported = Text("{what} is not supported")
given_twice = Text("{name!r} is given twice")
too_many = Text("must have at most {most} {what}")

#: Types by their names in the errors of the decoder.
TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "a mapping",
    "int | float | str": "a quantity (examples: 2, 500m, 1.5Gi)",
    "int | str": "a whole number or text",
    "object | str": "text or a mapping",
}
DURATION = "a duration such as 15s or 1m30s"
subdomain = Text("a DNS-1123 subdomain: at most {most} of a-z, 0-9, '-' and '.', beginning and ending with a-z or 0-9")

# Objects

NO_TOPOLOGY_KEY_OF_AFFINITY = "a pod affinity term needs a topologyKey"
NO_TOPOLOGY_KEY_OF_SPREAD = "a topology spread constraint needs a topologyKey"
not_a_number_or_percentage = Text("{value!r} is neither a number nor a percentage such as 50%")
no_replicated_job = Text("no replicated Job {name!r} comes before (known: {has})")
NO_CLUSTER_QUEUE = "a LocalQueue needs the name of its ClusterQueue"
NO_VALUE = "a WorkloadPriorityClass needs a value"
NOMINAL_QUOTA_MISSING = "is required; 0 is for resources that are only borrowed"
TAINT_WITHOUT_KEY = "a taint needs a key"
VALUE_WITH_EXISTS = "must be empty when the operator is Exists"
NO_KEY_WITHOUT_EXISTS = "must be Exists when there is no key"
other_resources = Text("must name {resources} in this order, as coveredResources does; it names {names}")
cohorts_differ = Text("{name!r} differs from spec.cohort {cohort!r}")
NO_RESOURCES = "a resource group covers at least one resource"
NO_FLAVORS = "a resource group has at least one flavor"
in_two_groups = Text("{name!r} stands in {seen} already; a {what} of a {kind} is in one group, once")
contradicts_borrowing = Text("{policy} contradicts borrowWithinCohort.policy {borrow}")
needs_to_try_next = Text("needs whenCanBorrow and whenCanPreempt to be {value}")
weight_too_small = Text("{weight} is neither 0 nor above 10^-9")
FLAVOR_WITHOUT_NAME = "a flavor needs the name of its ResourceFlavor"
useless_without = Text("means nothing without {without}")
lends_too_much = Text("{lending_limit} is more than the nominalQuota {nominal_quota}")
not_a_gang_name = Text("{value} cannot be the name of a gang, which is {rule}")
NOT_A_LIST_OF_GANGS = 'is not a JSON list such as ["ns/gang-a", "ns/gang-b"]'
NOT_A_TOPOLOGY = 'is not JSON such as {"gatherStrategy": [{"layer": "RackLayer", "strategy": "MustGather"}]}'
less_than_minimum = Text("{raw} is less than the {minimum} members that the gang needs ({field})")
group_too_long = Text("has {count} characters; at most {most} gangs can form a GangGroup")
lists_no_gang_name = Text("lists {value}; the name of a gang is {rule}")
too_many_gangs = Text("lists {count} gangs; at most {most} can form a GangGroup")
too_many_layers = Text("lists {count} layers; at most {most} can be asked for")
no_layer = Text("layer {layer} is neither a known layer nor a label key")
no_time_to_wait = Text("{value} is no time to wait")
no_strategy = Text("strategy {strategy} of layer {layer} is none of {allowed}")
NON_STRICT = "NonStrict spares bound members when others cannot be bound; members that wait hold no room in either mode"
NO_TOTAL = "is missing: a pod group needs the number of its pods"
GANG_OR_BASIC = "exactly one of gang and basic can be set"
NO_KEY_OF_TOPOLOGY = "a topology constraint needs a label key"
too_many_announced = Text("announces more than {most} pods")
NO_WORKLOAD_OF_TREE = "is required in a tree of groups"
BASIC_OF_GROUPS = "groups that start one by one are not supported in a group of groups"
subgroups_too_deep = Text("has more than {most} levels of sub-groups")
not_a_jvm_size = Text("{value!r} is not a size as Java writes it, such as 512m or 4g")
not_indexes = Text("{value!r} is not a list of indexes such as 0,3-5")
part_of_device = Text("{value} is no whole number: {resource} is counted in whole pieces")
above_limit = Text("{value} is above the limit, {limit}: the API server refuses it")
not_the_limit = Text("{value} is not the limit, {limit}: the API server refuses it for such a resource")
no_subgroup = Text("{name} is no sub-group outside of this one")
ONE_SUBGROUP = "members that no matchLabelKeys divide are one sub-group"
TASKS_AND_SUBGROUPS = "subGroupPolicy says which members there must be"
TIER_OR_NAME = "at most one of highestTierAllowed and highestTierName can be set"
SOFT_TOPOLOGY_WITHOUT_TIER = "a preferred domain is looked for only where a tier is named"
SHARE_OF_GPU = "shares of a GPU are not supported"
NODE_POOL = "node pools are not kept apart; a nodeSelector for this label of nodes keeps pods in one"
TOPOLOGY_OF_SUBGROUP = (
    "the topology of a subgroup is not supported unless the webhook of LeaderWorkerSet has written it as pod affinity"
)
subgroups_of_lws = Text("{each} is no size of subgroups of a group of {size}")
TOPOLOGY_OF_SLICE = "the topology of a slice is not supported unless Kueue has assigned the pod to a domain"
NO_POD_GROUPS = "lists no group"
no_clique = Text("{name} is no clique")
no_domain_of_grove = Text("{domain} is no domain of a ClusterTopologyBinding in the input: pass it too")
gated_until_base = Text(
    "{count} replicas of scaling groups wait until their base PodGang is placed: they are not planned"
)
no_group_of_its_own = Text("{name} is no group, or in another list too")
partitions = Text("{total} partitions of {size} are not the {replicas} replicas of the task")
few_subgroups = Text("{wanted} is not between 0 and the {count} sub-groups in it")
subgroup_twice = Text("each sub-group needs a name of its own, {name} is none")
level_twice = Text("each level needs a node label of its own, {label} is none")
ONE_LABEL_OF_LAYER = "one label for each layer is supported"
SOFT_GANG = "a gang does not start in part: it waits as with gangSchedulingStyle=Hard"
no_segments = Text("podCountMultiple of one layer, of which the minimum {minimum} is a multiple, is supported")
NOT_TASK_GROUPS = 'is not JSON such as [{"name": "worker", "minMember": 4}]'
too_many_task_groups = Text("1 to {most} task groups can be listed")
task_group_twice = Text("each task group needs a name of its own, {name} is none")
MEMBERS_OR_SUBGROUPS = "at most one of minMember and minSubGroup can be set"
SUBGROUP_WITHOUT_MINIMUM = "is required"
and_is_ignored = Text("{message}; it is ignored")
not_whole_seconds = Text("{raw!r} is not a whole number of seconds")
quantity_negative = Text("{raw!r} is negative; a resource quantity is zero or more")
quantity_too_large = Text("{raw!r} is larger than this scheduler can account exactly (2^53 base units)")
SELECTOR_WITHOUT_KEY = "a selector requirement needs a key"
operator_needs_values = Text("operator {operator} needs at least one value")
operator_takes_no_values = Text("operator {operator} takes no values")
operator_needs_integer = Text("operator {operator} needs exactly one integer")
IN_THE_FUTURE = "the time is in the future"
not_a_duration = Text("{raw!r} is not a duration such as 30s, 10m or 1h30m")
longer_than_a_year = Text("{raw!r} is longer than a year")
not_a_time = Text("{raw!r} is not an RFC 3339 time such as 2026-01-31T12:00:00Z")

# YAML and JSON

NESTED_TOO_DEEPLY = "is nested too deeply"
SURROGATE = "has half of a surrogate pair in a string"
NOT_YAML = "is not YAML"
TAB = "a tab cannot indent YAML; use spaces"
KEY_IS_COLLECTION = "a mapping key must be text, not a list or a mapping"
character_not_allowed = Text("the character U+{code:04X} is not allowed in YAML")
key_twice = Text("the key {key!r} is given twice in one {kind}")
tag_not_allowed = Text("the tag {tag} is not allowed")
alias_inside_itself = Text("the alias *{anchor} stands inside of what it names")
alias_of_nothing = Text("the alias *{anchor} names nothing")
aliases_too_large = Text("aliases expand to more than {most} values")
KEY_IS_NO_TEXT = "a mapping key must be text"
MERGE_OF_NO_MAPPING = "<< merges mappings, nothing else"
does_not_fit_tag = Text("{value!r} does not fit its tag {tag}")
not_json = Text("is not JSON: {why}")
at_line = Text("line {line}, column {column}: {message}")
OTHER_DOCUMENT = "there is another document; one was expected"
tag_on_key = Text("the tag {tag} is not allowed on a key")

# Manifests

priority_too_high = Text("{value} is above {most}, the highest value of a class that users make")
priority_without_class = Text(
    "{priority} is not 0, the priority of a {kind} without priorityClassName; name a PriorityClass"
)
priority_not_of_class = Text("{priority} is not {value}, the value of PriorityClass {name!r}; leave it out")
policy_not_of_class = Text(
    "{preemption_policy!r} is not {policy!r}, the policy of PriorityClass {name!r}; leave it out"
)
SEVERAL_DEFAULTS = "several classes are the global default; the lowest value counts, as for the API server"
no_priority_class = Text("no PriorityClass {name!r} in the input{hint}")
too_many_pods = Text("{wanted} pods are more than the {most} that one input may make")
too_many_pods_of_jobs = Text("the Jobs of the input would make more than {most} pods")
owner_defined_already = Text("its {kind} {namespace}/{name} was already defined in {place}")
pods_not_in_input = Text(
    "it runs {active} pods, and none is in the input: what they hold counts as free; pass its pods too"
)
IT_RUNS = "it runs, and its pods are not in the input: what they hold counts as free; pass its pods too"
default_local_queue = Text(
    "Kueue's webhook puts new Jobs without the label {label} into the LocalQueue of this name; here they need no quota"
)
gang_without_owner = Text(
    "it makes no gang of pods of {owner}: give them a label that names a PodGroup, or annotate a kind that is known"
)
WORKLOAD_REF = (
    "only Kubernetes 1.35 has this field, and it is not read: the pod starts by itself. Name a PodGroup in"
    " spec.schedulingGroup.podGroupName"
)
near_key = Text("this key means nothing; did you mean {meant}?")
managed_elsewhere = Text("{controller} makes its pods, as a rule in another cluster: none of them is planned here")
IT_IS_SUSPENDED = "it is suspended, and has no pods"
runtime_missing = Text("{kind} {name} is not in the input: pass it too, its pods are made of it")
in_groups_of_its_operator = Text("its operator makes a group for {scheduler}: pass that and its pods too")
waits_for_what_depends = Text(
    "its pods are made when those of other tasks run, and these wait for {minimum} members, of which {pods} exist then:"
    " none starts, here as with Volcano; set spec.minAvailable to at most {pods}"
)
MADE_BY_VOLCANO = "its PodGroup and its pods are made as Volcano's controllers do; if there are some, pass them too"
none_of_ours = Text("no pod that waits has the schedulerName {names}: of other schedulers are {others}")
NO_POD_IN_INPUT = "no pod of it in the input: pass its pods too"
no_template = Text("Workload {workload!r} has no template {template!r} (has: {has})")
no_node = Text("no Node {node!r} in the input: the pods on it are not looked at")
defined_already = Text("was already defined in {place}")
kind_missing = Text("names a {kind}, and there is none in the input: add {resources}")
AND_USE_PODS = "; pass its pods instead"
AND_QUOTES = "; put it in quotes"
no_object = Text("{where}a Kubernetes object is a mapping; this is {found}")
version_not_read = Text("{api_version!r} is not read (known: {api_versions}); the object is ignored")
CONFIGURATION = "a configuration file is given with --config, not with -f"
NOT_READ = "not read by the scheduler"
unknown_kind = Text("unknown kind {kind!r}{hint}")
not_that = Text("{shown} is not {wanted}{hint}")
not_a_list = Text("{found} is not a list")
kind_ignored = Text("a {kind} is ignored; pass its pods instead")
kind_not_known = Text("a {kind} of {api_version} is not known (known: {apis}); it is ignored")
not_a_name = Text("{value!r} is not a name: lower-case letters, digits, '-' and '.', up to 253 characters")
not_a_label_value = Text("{value!r} is not a label value: letters, digits, '-', '_' and '.', up to 63 characters")
not_text = Text("{value!r} is not text")
not_a_field_of_pods = Text("not a field of a pod's spec{hint}")
not_a_field = Text("not a field of this {kind}{hint}")
cannot_be_read = Text("cannot be read: {why}")
EMPTY_FOLDER = "the folder holds no *.yaml, *.yml or *.json file"
NO_SUCH_FILE = "no such file or folder"
PERMISSION_DENIED = "may not be read (permission denied)"
too_large = Text("is larger than {most} MiB")
not_utf8 = Text("is not UTF-8 text: {reason} at byte {start}")

# Settings

EMPTY = "must not be empty"
beyond_limits = Text("{value} is not {edge} {low:.12g} and {more}{high:.12g}")
NOT_LONGER_THAN_ZERO = "must be longer than zero"
NOT_A_CONFIGURATION = "must be a mapping that starts with apiVersion and kind"
not_longer_than_retries = Text("{renew_deadline} is not longer than {times:g} times retryPeriod")
lease_too_short = Text("{lease_duration} is shorter than 1s, the unit of a Lease")
ONE_OF_A_PAIR = "certificate and key come together: give both, or neither"
TOKENS_IN_THE_OPEN = (
    "a bearer token is a secret: give tlsCertFile and tlsKeyFile, or a bindAddress that is loopback, such as 127.0.0.1"
)
ADDRESS_IS_PUBLISHED = (
    "the configuration is published, so that no user, password or query may be in an address: set the variable"
    " OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_HEADERS instead"
)
shorter_than_initial = Text("{backoff_max} is shorter than backoffInitial")
too_few_items = Text("must have at least {min_length} item")
not_longer_than_deadline = Text("{lease_duration} is not longer than renewDeadline")
timeout_does_not_fit = Text("{request_timeout} does not fit between renewDeadline and leaseDuration")
name_of_two_profiles = Text("{name} is the name of profiles[{seen}] too")
missing = Text("missing; must be {wanted}")
unknown_key = Text("unknown key; {hint}")

# Plug-ins

AND_BIND_TIMEOUT = "; the timeout is volumes.bindTimeout"
unknown_plugin = Text("unknown plug-in {name}; {hint}")
no_plugin = Text("{name} is a part of this scheduler and no plug-in of it")
AND_SCORE_DISABLED = "; its score is switched off in plugins.score.disabled"
plugin_cannot_be_made = Text("plug-in {plugin} cannot be made: {kind}: {error}")
listed_twice = Text("{name} is listed twice")
only_a_score = Text("{name} has no filter, only a score")
only_a_filter = Text("{name} has no score, only a filter")
plugin_unusable = Text("plug-in {name} cannot be used: {error}")
takes_no_arguments = Text("{plugin} takes no arguments")
configured_twice = Text("{plugin} is configured twice")
indispensable = Text("{name} cannot be switched off: {indispensable}{instead}")
not_enabled = Text("{plugin} has arguments but is not enabled")
ARGUMENTS_DIFFER = "its filter and its score have different Arguments; they are made from the same args"
ARGUMENTS_NO_STRUCT = "its Arguments are no msgspec.Struct"
several_packages = Text("several packages have one: {names}")
no_class = Text("{value} is no class")
named_differently = Text("{value} is named {kind!r}, its entry point {name!r}")
no_method = Text("{value} has no method {names}")
no_flag = Text("{value} has no attribute {flag} that is True or False")
cannot_be_imported = Text("{value} cannot be imported: {kind}: {error}")
NO_SHAPE = "type RequestedToCapacityRatio needs a shape of at least one point"
PODS_DO_NOT_RANK = "pods are no resource that nodes can be ranked by"
NOT_A_LIST_OF_CONSTRAINTS = "must be List when there are defaultConstraints"
shape_of_other_type = Text("is for type RequestedToCapacityRatio, not {type}")
POINTS_NOT_RISING = "must be larger than that of the point before"
FOR_DO_NOT_SCHEDULE = "is for whenUnsatisfiable DoNotSchedule"
always_looked_at = Text("{name} is always looked at; only extended resources can be ignored")
no_resource_group = Text("{group} is no group: it contains a /")
two_constraints = Text("there are two for {topology_key} and {when_unsatisfiable}")
array_of_shape = Text("an array of {dtype} of shape {shape}")
plugin_failed = Text("plug-in {plugin} failed in {method}: {words}")
TERMS_ABOUT_PODS = "terms about pods"
more_than = Text("has {count} {what}, more than {most}")
scheduler_failed = Text("the scheduler failed in {place}: {words}")
NOWHERE = "an unknown place"
no_booleans = Text("answered {answer}, not an array of bool of shape ({size},)")
no_floats = Text("answered {answer}, not an array of float64 of shape ({size},)")
no_score = Text("answered {answer}, not a score between 0 and 100")
no_failure = Text("answered {answer}, not a Failure with a text")

# Traces

no_time_of_trace = Text("{value} is neither a number of at least 0 nor a time such as 2017-10-09 07:01:55")
no_priority = Text("{value} is not a priority, which is a whole number of at most {most}")
no_trace = Text("these columns are of no known trace; known are {known}")
COLUMN_EMPTY = "has no value"
NO_JOBS = "has no jobs"
