"""The tables of numbers that kernels share: a row a record, a row a turn. Places of text are addresses."""

# A record: where it lies; its turns (first, and the one after the last); where its list of turns lies; its number of
# fields, the number of the one that holds the turns, whether another holds a list or an object; whether the kernels
# take it; how many steps there are when it ends; what calls it has (FUNCTIONS, CODES); where the first long text lies
# among its other fields that stands as our encoder would write it (0: there is none), and the number of its field.
BEGIN, STOP, FIRST, LAST, CUT, CUT_END, KEYS, FIELD, NESTED, TAKEN, STEP_END, ACTS, WIDE, WIDE_END, WIDE_KEY = range(15)
RECORD = 15
FUNCTIONS, CODES = 1, 2

# A turn: what it is, its text; whether an observation pattern sees something in it, what, and the tool's name
# (NAME_START 0: none).
KIND, START, END, SEEN, SEEN_START, SEEN_END, NAME_START, NAME_END = range(8)
TURN = 8

# Kinds of turns. RESULT: of the environment, unless it bears the very name "environment". NOTHING: the place in front
# of a record's turns, where a text from elsewhere may go. ODD: a role that only the reference reader understands.
SYSTEM, USER, AGENT, RESULT, ENVIRONMENT, NOTHING, ODD = range(7)

# Names that records use: fields that hold turns, keys of a turn (role, content), roles and their kinds.
FIELDS, FIELD_COUNT, KEY_WORDS, ROLES, ROLE_COUNT, KINDS = range(6)

# A dialect: its words; its decoders as pairs (family, number of its first word), how many; any of the bits below;
# the numbers of the words that open reasoning and a Hermes result; the words that open observations.
WORDS, DECODERS, DECODER_COUNT, FLAGS, THINK, RESPONSE, OBSERVED, OBSERVED_COUNT = range(8)
# The options only_observed and think, the empty observation pattern, Hermes among the calls.
ONLY_OBSERVED, HAS_THINK, NEXT_OBSERVES, HAS_HERMES = 1, 2, 4, 8
