#!/bin/sh
# notice.sh ec2|gce|azure [RDZVCTL OPTION]...: waits on a virtual machine until its cloud says that the machine is about
# to be taken away, and drains the node then. Needs curl and rdzvctl; start it beside torchrun, such as
#
#     RDZVCTL_SERVER=store:29400 RDZVCTL_TOKEN_FILE=/etc/rdzv/token deploy/drain/notice.sh ec2 &
#
# NODE (default: this host's name) is the name of the node as `rdzvctl status JOB -o wide` shows it. If jobs of several
# spaces train on the machine, start one for each, with --space. METADATA replaces the address of the metadata server.
# The time of the notice is the least that the cloud promises.
set -eu

cloud=${1:?ec2, gce or azure}
shift
node=${NODE:-$(hostname)}

get() { # PATH [HEADER]...
    path=$1
    shift
    for header in "$@"; do set -- "$@" -H "$header"; shift; done
    curl -fsS --max-time "${GET_TIMEOUT:-5}" "$@" "$metadata$path" 2>/dev/null
}

# Spot: 2 minutes. The path exists from the notice on.
ec2() {
    token=$(curl -fsS --max-time 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/latest/api/token")
    get /latest/meta-data/spot/instance-action "X-aws-ec2-metadata-token: $token"
}

# Preemptible and spot: 30 s. Host maintenance that ends the machine says so earlier.
gce() {
    { get /computeMetadata/v1/instance/preempted 'Metadata-Flavor: Google' &&
        get /computeMetadata/v1/instance/maintenance-event 'Metadata-Flavor: Google'; } |
        grep -E 'TRUE|TERMINATE'
}

# Spot: 30 s; reboots and redeployments: 10 minutes and more. A freeze lasts seconds, and loses nothing.
azure() {
    get '/metadata/scheduledevents?api-version=2020-07-01' 'Metadata: true' |
        grep -E '"EventType": *"(Preempt|Terminate|Reboot|Redeploy)"'
}

case $cloud in
ec2) metadata=${METADATA:-http://169.254.169.254} seconds=110 ;;
gce) metadata=${METADATA:-http://metadata.google.internal} seconds=25 ;;
azure) metadata=${METADATA:-http://169.254.169.254} seconds=25 ;;
*)
    echo "notice.sh: $cloud: there are ec2, gce and azure" >&2
    exit 2
    ;;
esac

until found=$($cloud); do
    sleep "${EVERY:-2}"
done
echo "notice.sh: $cloud says: $found" >&2
exec rdzvctl "$@" drain "$node" --in="${seconds}s" --until=gone --reason="notice of $cloud"
