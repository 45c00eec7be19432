#!/bin/sh
# The program of the KRM function in rdzv.yaml. rdzv-manifest has to be in the PATH.
exec rdzv-manifest rewrite
