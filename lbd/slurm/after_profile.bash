# A login bash that runs a script of sbatch reads this by $BASH_ENV: after the user's profile, which
# sets PATH again, and before the script.
PATH=$SLURM_LBD_COMMANDS:$PATH
BASH_ENV=${SLURM_LBD_BASH_ENV:-}
unset SLURM_LBD_COMMANDS SLURM_LBD_BASH_ENV
if [ -z "$BASH_ENV" ]; then
    unset BASH_ENV
elif [ -r "$BASH_ENV" ]; then
    . "$BASH_ENV"
fi
