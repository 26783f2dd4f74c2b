"""Which language a text is written in, as far as cue tables and frame words need to know. No dictionary, no weights."""

from __future__ import annotations

import re
from functools import lru_cache

_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0002ffff]")
_KANA = re.compile(r"[\u3041-\u30fa\u30fc-\u30ff\uff66-\uff9f]")
_HANGUL = re.compile(r"[\uac00-\ud7af\u1100-\u11ff]")
_CYRILLIC = re.compile(r"[\u0400-\u052f]")
_ARABIC = re.compile(r"[\u0600-\u06ff]")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_CODE = re.compile(r"`[^`\n]*`|https?://\S+|[\w.~-]*/[\w./-]+|\b\w+\.\w{1,5}\b", re.ASCII)

_STOPWORDS = {
    "en": "the and for you that this with not are was what can have from don't do it is of to in on use always never "
    "all we i please should must be as at by if but they our your no now only when before after new old",
    "de": "der die das und nicht ist ich wir sie ein eine mit für auf bitte immer nie kein keine keinen den dem zu von "
    "auch nur statt jetzt ab wird werden sind uns hier es direkt alle",
    "fr": "le la les des et est pas ne que pour une un dans sur avec ce cette nous vous je du aux toujours jamais "
    "plutôt mais par tous toutes lieu utilise utiliser désormais n'est c'est",
    "es": "el los las y es que para una un en con por este esta siempre nunca usa usar del al mejor pero "
    "vez lugar todos todas ahora usamos hay sin",
    "pt": "os é não que para uma um em com por este esta sempre nunca usar da dos das ao vez você "
    "todos todas agora usamos sem isso pelo não",
    "it": "il gli è non che per una un in con di del della sempre mai usa usare questo ma tutti tutte ora "
    "sono sul nel invece",
    "nl": "het een niet ik wij voor met op altijd nooit geen van dit dat gebruik maar ook naar vanaf nu bij onze",
    "pl": "w nie na z jest że to się od zawsze nigdy dla wszystkie używaj teraz jak ale tylko proszę",
    "tr": "ve bir için her zaman asla değil ile kullan lütfen yeni tüm artık sonra",
    "vi": "và là không của các luôn dùng từ nay trong đừng hãy với một này mọi",
}
_WORDS = {code: frozenset(text.split()) for code, text in _STOPWORDS.items()}
_LETTERS = {
    "de": "äöüß",
    "fr": "çœêàèùâîôû",
    "es": "ñ¿¡",
    "pt": "ãõ",
    "pl": "ąęłśźżć",
    "tr": "ğışİ",
    "vi": "ơưđạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
}


@lru_cache(maxsize=8192)
def language(text: str) -> str:
    """A two-letter code: by script first, then by small words; "" where nothing tells."""
    plain = _CODE.sub(" ", text)
    kana, hangul = len(_KANA.findall(plain)), len(_HANGUL.findall(plain))
    han, latin = len(_HAN.findall(plain)), len(_LATIN.findall(plain))
    if kana and kana * 8 >= han and kana * 8 >= latin:
        return "ja"
    if hangul and hangul * 8 >= latin:
        return "ko"
    # One Han character says about as much as three Latin letters.
    if han and han * 4 >= latin:
        return "zh"
    cyrillic = len(_CYRILLIC.findall(plain))
    if cyrillic * 2 > latin:
        return "ru"
    if len(_ARABIC.findall(plain)) * 2 > latin:
        return "ar"
    return _by_small_words(plain) if latin else ("zh" if han else "")


def _by_small_words(text: str) -> str:
    lowered = text.lower()
    words = _WORD.findall(lowered)
    score = {code: sum(word in known for word in words) * 2 for code, known in _WORDS.items()}
    for code, letters in _LETTERS.items():
        score[code] += sum(letter in lowered for letter in letters)
    score["en"] += 1
    best = max(score, key=lambda code: score[code])
    return best if score[best] > 1 else ""


def main_language(texts: list[str]) -> str:
    """The language most of the text is in; English where nothing tells."""
    total: dict[str, float] = {}
    for text in texts:
        code = language(text[:2000])
        if code:
            total[code] = total.get(code, 0.0) + weight(text[:2000])
    return max(total, key=lambda code: (total[code], code)) if total else "en"


@lru_cache(maxsize=8192)
def weight(text: str) -> float:
    """How much a text says, in Latin letters: a Han, kana or Hangul character counts 2.5 [M23]."""
    dense = len(_HAN.findall(text)) + len(_KANA.findall(text)) + len(_HANGUL.findall(text))
    return sum(char.isalnum() for char in text) + 1.5 * dense
