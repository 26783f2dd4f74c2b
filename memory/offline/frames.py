"""The few words this engine adds around what it quotes, in the language of the person."""

from __future__ import annotations

import re

from memory.offline.language import language

_FRAMES: dict[str, dict[str, str]] = {
    "en": {
        "failed": "{command} failed: {error}",
        "then": "; then {command} worked",
        "later": "; it passed later",
        "open": "; no success after it",
        "passed": "{command} passed",
        "confirmed": "The user confirmed: {text}",
        "reported": "The assistant reported: {text}",
        "changed": "Files changed: {items}",
        "used": "Commands used: {items}",
        "corrected": "Correction: {text}",
        "earlier": " (earlier: {text})",
        "scope": "In `{project}`: {text}",
        "separator": "; ",
    },
    "zh": {
        "failed": "{command} 失败：{error}",
        "then": "；之后 {command} 成功",
        "later": "；后来通过",
        "open": "；之后没有成功",
        "passed": "{command} 通过",
        "confirmed": "用户确认：{text}",
        "reported": "助手报告：{text}",
        "changed": "改动的文件：{items}",
        "used": "用过的命令：{items}",
        "corrected": "纠正：{text}",
        "earlier": "（此前：{text}）",
        "scope": "在 `{project}` 中：{text}",
        "separator": "；",
    },
    "ja": {
        "failed": "{command} は失敗：{error}",
        "then": "；その後 {command} は成功",
        "later": "；後で成功",
        "open": "；その後の成功なし",
        "passed": "{command} は成功",
        "confirmed": "ユーザーの確認：{text}",
        "reported": "アシスタントの報告：{text}",
        "changed": "変更したファイル：{items}",
        "used": "使ったコマンド：{items}",
        "corrected": "訂正：{text}",
        "earlier": "（以前：{text}）",
        "scope": "`{project}` では：{text}",
    },
    "ko": {
        "failed": "{command} 실패: {error}",
        "then": "; 그 뒤 {command} 성공",
        "later": "; 나중에 통과",
        "open": "; 이후 성공 없음",
        "passed": "{command} 통과",
        "confirmed": "사용자 확인: {text}",
        "reported": "어시스턴트 보고: {text}",
        "changed": "변경한 파일: {items}",
        "used": "사용한 명령: {items}",
        "corrected": "정정: {text}",
        "earlier": " (이전: {text})",
    },
    "de": {
        "failed": "{command} schlug fehl: {error}",
        "then": "; danach lief {command}",
        "later": "; später lief es durch",
        "open": "; danach kein Erfolg",
        "passed": "{command} lief durch",
        "confirmed": "Vom Nutzer bestätigt: {text}",
        "reported": "Bericht des Assistenten: {text}",
        "changed": "Geänderte Dateien: {items}",
        "used": "Benutzte Befehle: {items}",
        "corrected": "Berichtigung: {text}",
    },
    "fr": {
        "failed": "{command} a échoué : {error}",
        "then": " ; puis {command} a marché",
        "later": " ; réussi plus tard",
        "open": " ; aucun succès ensuite",
        "passed": "{command} a réussi",
        "confirmed": "Confirmé par l'utilisateur : {text}",
        "reported": "Rapport de l'assistant : {text}",
        "changed": "Fichiers modifiés : {items}",
        "used": "Commandes utilisées : {items}",
        "corrected": "Correction : {text}",
    },
    "es": {
        "failed": "{command} falló: {error}",
        "then": "; después {command} funcionó",
        "later": "; más tarde pasó",
        "open": "; sin éxito posterior",
        "passed": "{command} pasó",
        "confirmed": "Confirmado por el usuario: {text}",
        "reported": "Informe del asistente: {text}",
        "changed": "Archivos cambiados: {items}",
        "used": "Comandos usados: {items}",
        "corrected": "Corrección: {text}",
    },
    "pt": {
        "failed": "{command} falhou: {error}",
        "then": "; depois {command} funcionou",
        "later": "; passou mais tarde",
        "open": "; sem sucesso depois",
        "passed": "{command} passou",
        "confirmed": "Confirmado pelo usuário: {text}",
        "reported": "Relato do assistente: {text}",
        "changed": "Arquivos alterados: {items}",
        "used": "Comandos usados: {items}",
        "corrected": "Correção: {text}",
    },
    "ru": {
        "failed": "{command}: ошибка {error}",
        "then": "; затем {command}: успешно",
        "later": "; позже прошло",
        "open": "; успеха после этого не было",
        "passed": "{command}: успешно",
        "confirmed": "Подтверждено пользователем: {text}",
        "reported": "Отчёт ассистента: {text}",
        "changed": "Изменённые файлы: {items}",
        "used": "Команды: {items}",
        "corrected": "Исправление: {text}",
    },
}


def frame(code: str, name: str, **values: str) -> str:
    """The frame `name` in a language, English where the language or the frame is not known."""
    pattern = _FRAMES.get(code, {}).get(name) or _FRAMES["en"][name]
    return pattern.format(**values)


_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def code_for(text: str) -> str:
    """The language whose frames go around a text. In a text with unspaced script every Latin word counts as a name
    that must stand in the source, so such a text never gets an English frame."""
    code = language(text) or "en"
    return code if code in {"zh", "ja"} or not _UNSPACED.search(text) else "zh"


def leads(name: str) -> tuple[str, ...]:
    """How a line of this frame starts, in every language: to know such a line again."""
    return tuple(
        sorted(
            {
                table[name].split("{")[0]
                for table in _FRAMES.values()
                if name in table and not table[name].startswith("{")
            }
        )
    )


def marks(name: str) -> tuple[str, ...]:
    """The fixed words inside a frame, in every language."""
    found = set()
    for table in _FRAMES.values():
        for part in table.get(name, "").replace("}", "{").split("{")[::2]:
            if part.strip(" :;："):
                found.add(part.strip(" :;："))
    return tuple(sorted(found))
