"""English: the words of a question that say nothing, and forms that endings do not give away. Pure data."""

from __future__ import annotations

STOPWORDS = frozenset(
    """
a about above after again all also am an and any anybody anyone anything are arent as at be because been before being
below between both but by can cant could couldnt did didnt do does doesnt doing done dont down during each else ever
few for from further get gets getting give given go goes going gone got had hadnt has hasnt have havent having he hed
hell her here hers herself hes hey hi him himself his how i id ill im in instead into is isnt it its itself ive just
kind know let lets like lot made make makes making many may maybe me might mine more most much must my myself need
needs no nor not now of off ok okay on once one only or other ought our ours ourselves out over own please really
regarding said same say says see shall she shed shes should shouldnt so some somebody someone something sort still such
sure take taken takes tell than that thats the their theirs them themselves then there theres these they theyd theyll
theyre theyve this those though through thus to too under until up upon us use used uses using very via want wants was
wasnt way we wed well were werent weve what whatever whats when where whether which while who whole whom whos whose why
will with within without wont would wouldnt yes yet you youd youll your youre yours yourself yourselves youve
""".split()
)

_FORMS = """
arise arose arisen, beat beaten, become became, begin began begun, bend bent, bite bit bitten, bleed bled,
blow blew blown, break broke broken, bring brought, build built, burn burnt, buy bought, catch caught,
choose chose chosen, come came, deal dealt, dig dug, draw drew drawn, dream dreamt, drink drank drunk,
drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt, fight fought, find found, fly flew flown,
forget forgot forgotten, forgive forgave forgiven, freeze froze frozen, give gave given, go went gone,
grow grew grown, hang hung, hear heard, hide hid hidden, hold held, keep kept, know knew known, lay laid, lead led,
learn learnt, leave left, lend lent, lose lost, make made, mean meant, meet met, overcome overcame, pay paid,
prove proven, ride rode ridden, ring rang rung, rise rose risen, run ran, say said, see saw seen, seek sought,
sell sold, send sent, sew sewn, shake shook shaken, shine shone, shoot shot, show shown, shrink shrank shrunk,
sing sang sung, sink sank sunk, sit sat, sleep slept, speak spoke spoken, spend spent, spin spun, split,
stand stood, steal stole stolen, stick stuck, strike struck, swear swore sworn, sweep swept, swim swam swum,
swing swung, take took taken, teach taught, tear tore torn, tell told, think thought, throw threw thrown,
understand understood, wake woke woken, wear wore worn, win won, wind wound, write wrote written, rewrite rewrote
rewritten, rebuild rebuilt, override overrode overridden, undo undid undone, redo redid redone, unbind unbound,
bind bound, child children, man men, woman women, person people, foot feet, tooth teeth, mouse mice, wife wives,
life lives, knife knives, leaf leaves, shelf shelves, index indices, vertex vertices, matrix matrices, query queries,
good better best, bad worse worst
"""
IRREGULAR = {form: base for base, *forms in (group.split() for group in _FORMS.split(",")) for form in forms}
"""An inflected form -> the form a dictionary has."""
