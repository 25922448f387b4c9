// Converts pinyin (ni'hao, a line per sentence) to hanzi by libime: the sentence that it proposes first.
// Usage: input_methods sc.dict zh_CN.lm < PINYIN > HANZI

#include <iostream>
#include <memory>
#include <string>

#include <libime/core/languagemodel.h>
#include <libime/core/userlanguagemodel.h>
#include <libime/pinyin/pinyincontext.h>
#include <libime/pinyin/pinyindictionary.h>
#include <libime/pinyin/pinyinime.h>

int main(int, char **argv) {
    auto dictionary = std::make_unique<libime::PinyinDictionary>();
    dictionary->load(libime::PinyinDictionary::SystemDict, argv[1], libime::PinyinDictFormat::Binary);
    auto words = std::make_shared<libime::StaticLanguageModelFile>(argv[2]);
    libime::PinyinIME ime(std::move(dictionary), std::make_unique<libime::UserLanguageModel>(words));
    libime::PinyinContext context(&ime);
    for (std::string pinyin; std::getline(std::cin, pinyin);) {
        context.clear();
        context.type(pinyin);
        std::cout << context.sentence() << std::endl;
    }
}
